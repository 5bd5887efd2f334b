"""Figures: they show the numbers of the studies, in the colours of the methods, and are files of the kind asked for."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from displace.errors import InputError
from displace.evaluation import studies
from displace.evaluation.studies.task import METHODS
from displace.report.colours import RIGHT, WRONG, style_of
from displace.report.figures import draw, save_figure, save_figures
from displace.report.html.plots import plot_study
from displace.report.html.sections import studies_html
from displace.synthetic import make_route
from displace.truth import SamePlace


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    route = make_route(n_places=40, n_traversals=3, dim=32, noise=0.9, seed=3)
    pictures = []
    for name in ("query", "place"):
        paths = [folder / f"{name}{row}.png" for row in range(40)]
        for row, path in enumerate(paths[:-1]):  # the last one is missing
            Image.new("RGB", (32, 24), (row, 100, 200)).save(path)
        pictures.append([str(path) for path in paths])
    return studies.Task.of(
        route.references,
        route.queries,
        SamePlace(route.truth),
        query_images=pictures[0],
        place_images=pictures[1],
    )


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_compression_shows_its_means(task):
    study = studies.study_compression(task, dims=(8, 16), seeds=(0, 1))
    (axes,) = draw(study).axes
    for curve in study.curves:
        line = lines(axes)[curve.label]
        np.testing.assert_allclose(line.get_ydata(), curve.means)
        assert line.get_color() == style_of(curve.fusion).colour
        assert (line.get_markerfacecolor() == "white") == (not curve.plain)
    assert "better" in axes.get_ylabel()
    levels = [line.get_ydata()[0] for line in axes.lines if line.get_label().startswith("_")]
    assert levels == [curve.full for curve in study.curves]


@pytest.mark.parametrize("rows", [(0, 1, 2, 3), tuple(range(8))])
def test_names_beside_pictures_stand_clear_of_each_other(task, rows):
    """They are upright, and long ones were written over those above and below."""
    methods = [
        dataclasses.replace(method, label=f"{method.label} of our own, a second setting")
        for method in METHODS
    ]
    figure = draw(studies.study_examples(task, methods, rows=rows))
    figure.canvas.draw()
    names = [axes.yaxis.label for axes in figure.axes if axes.get_ylabel()]
    assert len(names) > len(methods)
    extents = [name.get_window_extent() for name in names]
    assert all(above.y0 > below.y1 for above, below in pairwise(extents))


def test_compression_says_what_was_projected(task, tmp_path):
    found = [
        studies.study_compression(task, dims=(8, 16), seeds=(0,), after_fusion=after)
        for after in (False, True)
    ]
    labels = [draw(study).axes[0].get_xlabel() for study in found]
    assert [label.split("   ")[0] for label in labels] == [
        "dimension, randomly projected before fusion",
        "dimension, randomly projected after fusion",
    ]
    # Studies that differ in it, or in the protocol, are different files.
    other = dataclasses.replace(found[0], setting=dataclasses.replace(found[0].setting, protocol="another"))
    assert len(set(save_figures([*found, other], tmp_path, ["svg"]))) == 3


def test_tau_shows_recall_and_dimensions(task):
    study = studies.study_tau([task], (0.5, 0.9, 1.0))
    left, right = draw(study).axes
    np.testing.assert_allclose(lines(left)["query"].get_ydata(), study.curves[0].recalls)
    np.testing.assert_allclose(lines(right)["query"].get_ydata(), study.curves[0].dims)
    paper = lines(left)["query, paper's setting"]
    np.testing.assert_allclose(paper.get_ydata(), study.curves[1].recalls)
    assert paper.get_color() == lines(left)["query"].get_color()
    assert paper.get_markerfacecolor() == "white"
    assert "open markers: paper's setting" in right.get_title()
    assert "↓ better" in right.get_ylabel()


def test_a_legend_of_long_names_stays_inside_the_figure(task):
    named = [
        dataclasses.replace(task, query=query) for query in ("dusk", "night", "overcast", "overcast2", "rain")
    ]
    figure = draw(studies.study_tau(named, (0.5, 1.0)))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    left, right = legend.get_window_extent().intervalx
    assert left >= 0
    assert right <= figure.bbox.width
    assert len(legend.get_texts()) == 10


def test_rows_of_a_legend_are_about_as_long(task):
    """Six names were five in a row and one below the first."""
    named = [dataclasses.replace(task, query=str(number)) for number in range(3)]
    figure = draw(studies.study_tau(named, (0.5, 1.0)))
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 6
    figure.draw_without_rendering()
    assert len({round(text.get_window_extent().x0) for text in legend.get_texts()}) == 3
    assert len({round(text.get_window_extent().y0) for text in legend.get_texts()}) == 2


def test_a_long_legend_leaves_the_curves_their_height(task):
    """Of twelve queries, the legend left so little that the name of the axis ran into the title."""
    heights = []
    for n in (2, 12):
        named = [dataclasses.replace(task, query=f"traversal {number} of a year") for number in range(n)]
        figure = draw(studies.study_tau(named, (0.5, 1.0)))
        figure.draw_without_rendering()
        low, high = figure.axes[0].get_window_extent().intervaly / figure.dpi
        heights.append(high - low)
    assert heights[1] > 0.85 * heights[0]


def test_curves_that_hide_each_other_are_named(task):
    """Pooling ranks as dMat Min does: the legend had a curve that nobody could see."""
    study = studies.study_compression(task, dims=(8,), seeds=(0,))
    (axes,) = draw(study).axes
    assert "the same curve: dMat. Min.; Pooling" in axes.get_title()
    assert "The same curve: dMat. Min.; Pooling." in studies_html([study], {})
    apart = dataclasses.replace(study, curves=study.curves[-1:])
    assert "same curve" not in studies_html([apart], {})


def test_the_page_shows_what_is_not_projected(task):
    """Thin lines, as in print: also where a study has a single dimension, over which a line would have no length."""
    study = studies.study_compression(task, dims=(8,), seeds=(0,))
    plot = plot_study(study)
    thin = [trace for trace in plot["data"] if trace["mode"] == "lines"]
    assert [trace["y"][0] for trace in thin] == [curve.full for curve in study.curves]
    assert all(trace["x"][0] < 8 < trace["x"][1] for trace in thin)
    low, high = plot["layout"]["xaxis"]["range"]
    assert low < np.log10(8) < high

    study = studies.study_tau([task], (0.5, 1.0))
    thin = [trace for trace in plot_study(study)["data"] if trace["mode"] == "lines"]
    assert [trace["y"] for trace in thin] == [[study.curves[0].baseline] * 2]
    assert thin[0]["legendgroup"] == "query"


def test_a_singular_setting_is_told_in_the_figure():
    route = make_route(n_places=20, n_traversals=2, dim=48)
    task = studies.Task.of(route.references, route.queries, SamePlace(route.truth))
    left, right = draw(studies.study_tau([task], (0.5, 1.0))).axes
    assert "not possible, the scatter is singular" in right.get_title()
    assert "query, paper's setting" not in lines(left)


def test_dimensions_at_which_a_method_is_not_possible_are_named():
    route = make_route(n_places=20, n_traversals=2, dim=48)
    task = studies.Task.of(route.references, route.queries, SamePlace(route.truth))
    (axes,) = draw(
        studies.study_compression(task, dims=(8, 32), seeds=(0,), methods=[studies.task.PAPER])
    ).axes
    assert "DisPlace (paper): not possible at 32" in axes.get_title()


def test_methods_that_cannot_be_projected_leave_room_for_the_others(task):
    study = studies.study_compression(task, dims=(8, 16, 24), seeds=(0,), after_fusion=True)
    figure = draw(study)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_window_extent().intervaly / figure.dpi
    assert high - low > 1.2  # inches
    drawn = [curve.label for curve in study.curves if not curve.empty]
    assert "Pooling" not in drawn
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == drawn
    assert "Pooling; Subspace" in axes.get_title().replace("\n", " ")
    names = {trace["name"] for trace in plot_study(study)["data"]}
    assert not any(name.startswith("Pooling") for name in names)


def test_cost_shows_time_and_storage(task):
    study = studies.study_cost(task, methods=METHODS, repeats=2, n_timed=2)
    left, right = draw(study).axes
    assert "2 interleaved rounds, one thread" in left.get_title()
    assert study.device in [text.get_text() for text in left.texts]
    for axes, attribute, unit in ((left, "milliseconds", 1), (right, "n_bytes", 2**20)):
        shown = {bar.get_label(): bar.lines[0].get_xydata()[0] for bar in axes.containers}
        for row in study.rows:
            np.testing.assert_allclose(shown[row.label], [getattr(row, attribute) / unit, row.recall])
        assert "← better" in axes.get_xlabel()


def test_space_marks_the_query(task):
    study = studies.study_space(task, n_places=8)
    for axes, view in zip(draw(study).axes, study.views, strict=True):
        query = next(c for c in axes.collections if c.get_label().startswith("query"))
        np.testing.assert_allclose(query.get_offsets(), [view.points[-1]], rtol=1e-4)


def test_frames_tell_right_from_wrong_without_colour(task):
    study = studies.study_examples(task, n_columns=2)
    panels = np.array(draw(study).axes).reshape(2 + len(METHODS) + 1, 2)
    for across, column in enumerate(study.columns):
        for down, pick in enumerate(column.picks, 2):
            axes = panels[down][across]
            assert "✓✗"[not pick.right] in [text.get_text() for text in axes.texts]
            spine = axes.spines["left"]
            assert spine.get_linestyle() == ("-" if pick.right else "--")
            np.testing.assert_allclose(
                spine.get_edgecolor()[:3],
                [int((RIGHT if pick.right else WRONG)[at : at + 2], 16) / 255 for at in (1, 3, 5)],
            )


def test_methods_that_agree_make_a_figure_that_says_so(task):
    study = studies.study_examples(task, methods=METHODS[3:4] * 2)
    assert study.columns == []
    assert "same queries" in draw(study).texts[0].get_text()


def test_files_are_what_their_endings_say(task, tmp_path):
    study = studies.study_tau([task], (0.5, 1.0))
    written = save_figures([study], tmp_path, ("pdf", "png", "svg"))
    assert [path.suffix for path in written] == [".pdf", ".png", ".svg"]
    starts = [path.read_bytes()[:5] for path in written]
    assert starts == [b"%PDF-", b"\x89PNG\r", b"<?xml"]
    again = save_figures([study], tmp_path / "again", ("pdf", "svg"))
    assert [path.read_bytes() for path in again] == [written[0].read_bytes(), written[2].read_bytes()]
    with pytest.raises(InputError, match=r"must end in one of \.pdf"):
        save_figure(draw(study), tmp_path / "figure.gif")


@pytest.mark.parametrize("name", [r"$\nosuch$", r"$\mathdefault{\nosuch}$"])
def test_dollars_in_names_are_no_formulas(task, tmp_path, name):
    study = studies.study_tau([task], (0.5, 1.0))
    named = dataclasses.replace(study, setting=dataclasses.replace(study.setting, query=name))
    save_figure(draw(named), tmp_path / "figure.svg")
    assert name in (tmp_path / "figure.svg").read_text()
