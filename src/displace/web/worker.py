"""A process that reads images and prepares them for a model.

The server writes images to its standard input and reads what became of them from its standard output: a line of JSON,
then bytes. It ends when its input does, so that it outlives no server, however that ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from displace.descriptors.preparation import Failure, Prepared, prepare
from displace.errors import DisplaceError, ImageError
from displace.images import FORMATS, open_image
from displace.models import open_model
from displace.models.base import DescriptorModel
from displace.threads import keep_to_one_core
from displace.web.limits import Limits, RefusedError
from displace.web.process import LARGE_FOR_WORKER, leave_out_pillow, return_memory

Answer = Prepared | RefusedError
"""A prepared image, or why there is none."""
COMMAND = (sys.executable, "-P", "-c", "from displace.web.worker import main; main()")
LAST_SECONDS = 10.0
"""For the image that a process is working on when it is told to end."""


class WorkerEndedError(DisplaceError):
    """The process ended by itself: memory ran out, an image took too long, or it could not start."""


def prepared_image(model: DescriptorModel, image: bytes, limits: Limits) -> Answer:
    """Check, read and prepare one image; what is wrong with it is an answer."""
    try:
        answer = prepare(model, checked_image(image, limits))
    except RefusedError as error:
        return error
    return RefusedError(422, str(answer)) if isinstance(answer, Failure) else answer


def checked_image(content: bytes, limits: Limits) -> bytes:
    """Refuse what is no image, or too large a one, from its head alone."""
    if not content:
        raise RefusedError(415, "the image is empty: nothing was sent")
    try:
        with open_image(content) as image:
            width, height = image.size
    except Image.DecompressionBombError:
        raise RefusedError(413, f"the image has more than {limits.pixels:,} pixels: scale it down") from None
    except ImageError as error:
        raise RefusedError(415, f"the image {error}") from None
    except Exception:  # Pillow's readers raise nearly every type on damaged files
        raise RefusedError(415, f"this is no image that is read here ({', '.join(FORMATS)})") from None
    if width * height > limits.pixels:
        raise RefusedError(
            413, f"the image has {width * height:,} pixels, the limit is {limits.pixels:,}: scale it down"
        )
    return content


class Worker:
    """The server's end of a process, in which the model is made again; used by one thread at a time."""

    def __init__(self, model: DescriptorModel, limits: Limits) -> None:
        # No child of multiprocessing: that would run the script again that called the server, and wait for it at exit.
        # In a session of its own, where Ctrl-C does not reach it: what was accepted is answered first.
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
        self._asks, self._answers = _piped(self._process)
        files = {"weights": model.weights_file, "mask": model.mask_file}
        self._begin = {
            "model": model.fingerprint(),
            "files": {name: str(path) for name, path in files.items() if path is not None},
            "pixels": limits.pixels,
            "seconds": limits.seconds,
        }

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until it has loaded what it needs, a second or two; `WorkerEndedError` where it cannot."""
        self._write(self._begin, ())
        self._read()

    def prepare(self, images: Sequence[bytes]) -> list[Answer]:
        """`prepared_image` of each; `WorkerEndedError` where the process ended meanwhile."""
        self._write([len(image) for image in images], images)
        return [self._answer(head) for head in self._read()]

    def end(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._asks.close()
        try:
            self._process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _answer(self, head: dict[str, Any]) -> Answer:
        if "status" in head:
            return RefusedError(head["status"], head["message"])
        size = 4 * int(np.prod(head["shape"]))
        content = self._answers.read(size)
        if len(content) < size:
            raise WorkerEndedError(_ended(self.pid))
        return np.frombuffer(content, "<f4").reshape(head["shape"])

    def _write(self, head: Any, parts: Sequence[bytes]) -> None:
        try:
            _send(self._asks, head, parts)
        except OSError:
            raise WorkerEndedError(_ended(self.pid)) from None

    def _read(self) -> Any:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise WorkerEndedError(_ended(self.pid))
        return json.loads(line)


def main() -> None:
    """Run the process."""
    asks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or of systemd: the server says when to end
        signal.signal(number, signal.SIG_IGN)
    begin = json.loads(asks.readline())
    model = _ready_model(begin["model"], begin["files"])
    limits = Limits(pixels=begin["pixels"], seconds=begin["seconds"])
    _send(answers, "ready", ())
    with suppress(BrokenPipeError):  # the server has gone
        while line := asks.readline():
            images = [asks.read(size) for size in json.loads(line)]
            found = [_in_time(model, image, limits) for image in images]
            _send(answers, [_head(answer) for answer in found], [_content(answer) for answer in found])


def _in_time(model: DescriptorModel, image: bytes, limits: Limits) -> Answer:
    """`prepared_image`, or the end of this process (POSIX) when the client has had its answer without it."""
    if not hasattr(signal, "setitimer"):
        return prepared_image(model, image, limits)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    answer = prepared_image(model, image, limits)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return answer


def _ready_model(fingerprint: dict[str, Any], files: dict[str, str]) -> DescriptorModel:
    """The model, with all that it imports at its first image."""
    keep_to_one_core()
    return_memory(LARGE_FOR_WORKER)
    leave_out_pillow()
    model = open_model(fingerprint, **files)
    with suppress(DisplaceError):  # a crop may leave nothing of an image this small
        model.prepare(np.zeros((256, 256, 3), np.uint8))
    return model


def _head(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, RefusedError):
        return {"status": answer.status, "message": answer.message}
    return {"shape": answer.shape}


def _content(answer: Answer) -> bytes:
    return b"" if isinstance(answer, RefusedError) else np.ascontiguousarray(answer, "<f4").tobytes()


def _send(file: IO[bytes], head: Any, parts: Sequence[bytes]) -> None:
    file.write(json.dumps(head).encode() + b"\n")
    for part in parts:
        file.write(part)
    file.flush()


def _piped(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _environment() -> dict[str, str]:
    """That of the server, with modules from where it has them; BLAS of one thread starts in half the time."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    modules = os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path)
    return {**threads, **os.environ, "PYTHONPATH": modules}


def _ended(pid: int) -> str:
    return f"the process {pid}, which reads images, ended unexpectedly"
