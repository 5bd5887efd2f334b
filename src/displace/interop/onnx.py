"""ONNX: a map's projection of queries, normalise((q − mean)·P), as a file that any runtime executes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from displace._version import __version__
from displace.errors import InputError
from displace.files.outputs import output_file
from displace.files.reading import PathLike
from displace.interop.base import Exporter
from displace.maps import PlaceMap
from displace.registry import import_extra

OPSET, IR_VERSION = 13, 7
"""From 2020, so that every runtime in use reads them; later operator sets add nothing needed here."""
MAX_BYTES = 2**31 - 2**20
"""A file of protocol buffers ends at 2 GiB."""
INPUT, OUTPUT = "descriptors", "projected"


def write_projection(place_map: PlaceMap, path: PathLike) -> list[Path]:
    """Write the projection of queries as an ONNX model.

    Its input ``descriptors`` is float32 (batch, D), as the descriptor model gives them; its output ``projected`` is
    float32 (batch, n), unit length, ready for an inner product with the map's rows. Maps without a projection (hops,
    pooling, single) normalise only. The model's metadata name the fusion and the descriptor model.
    """
    onnx = import_extra("onnx", "onnx")
    size = sum(array.nbytes for array in (place_map.projection, place_map.mean) if array is not None)
    if size > MAX_BYTES:
        raise InputError(
            f"a projection of {size} bytes is more than an ONNX file can hold ({MAX_BYTES}): build the map "
            "with a smaller tau or n_components"
        )
    model = _model(onnx, place_map)
    onnx.checker.check_model(model)
    with output_file(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return [Path(path)]


def _model(onnx: Any, place_map: PlaceMap) -> Any:
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes, constants = _graph(onnx, place_map)
    n = place_map.vectors.shape[1]
    graph = helper.make_graph(
        nodes,
        "displace",
        [helper.make_tensor_value_info(INPUT, float32, ["batch", place_map.dim])],
        [helper.make_tensor_value_info(OUTPUT, float32, ["batch", n])],
        constants,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="displace",
        producer_version=__version__,
        doc_string="normalise((descriptors - mean) @ projection), for inner products with a place map's rows",
    )
    about = {"fusion": place_map.fusion, "model": json.dumps(place_map.model, sort_keys=True)}
    helper.set_model_props(model, about)
    return model


def _graph(onnx: Any, place_map: PlaceMap) -> tuple[list[Any], list[Any]]:
    """Nodes and constants; the order of operations is that of `PlaceMap.project`, for equal rounding."""
    node, from_array = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes, constants, current = [], [], INPUT
    for operation, name, array, result in (
        ("Sub", "mean", place_map.mean, "centred"),
        ("MatMul", "projection", place_map.projection, "raw"),
    ):
        if array is not None:
            constants.append(from_array(np.ascontiguousarray(array, np.float32), name))
            nodes.append(node(operation, [current, name], [result]))
            current = result
    # The square of a number beyond 1e±19 is none of float32: rows are brought to a largest number of 1 first. A row of
    # zeros stays zero: it is divided by the smallest positive number instead of its length.
    constants.append(from_array(np.array(np.finfo(np.float32).tiny), "tiny"))
    nodes += [
        node("Abs", [current], ["sizes"]),
        node("ReduceMax", ["sizes"], ["size"], axes=[1], keepdims=1),
        node("Max", ["size", "tiny"], ["scale"]),
        node("Div", [current, "scale"], ["scaled"]),
        node("ReduceL2", ["scaled"], ["length"], axes=[1], keepdims=1),
        node("Max", ["length", "tiny"], ["divisor"]),
        node("Div", ["scaled", "divisor"], [OUTPUT]),
    ]
    return nodes, constants


class Onnx(Exporter):
    """ONNX model of what a map does to queries: normalise((q − mean)·P)."""

    write_map = staticmethod(write_projection)
