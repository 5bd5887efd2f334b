"""Frames of a drive in view of their pictures: a place that a frame fits counts for more.

A frame is laid on the pictures of its best places (`sketches.fit_to_each`). The similarity of such a place grows by

    GAIN · deviation · (fit − BY_CHANCE), the difference clipped to 0 … MOST

where deviation is that of the frame's similarities over the places. What does not fit is left as it is: a camera in
another lane, or traffic, hides what a place looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, top_k
from displace.sequence.engine import Blocks, in_blocks
from displace.sketches import Sketches, fit_to_each, unpacked

AMONG = 8
"""Best places of a frame that it is compared with."""
GAIN, OF_ALL = 1.5, 0.7
"""Deviations of similarity for each deviation of the fit: of a frame as it comes, and where all frames are known, whose
errors that are alike add up."""
BY_CHANCE, MOST = 2.4, 1.0
"""Fit that pictures of two places along one road, or of two like streets, hardly exceed; and how much more counts at
most, as errors of frames that follow each other are alike."""


@dataclass(frozen=True, eq=False)
class RoutePictures:
    """Sketches of the places of a route."""

    packed: NDArray[np.uint8]
    """Shape (N, PACKED), in the order of the route; zeros where there is none."""

    def heeded(self, similarity: Vectors, sketch: Sketches) -> Vectors:
        """Similarities (N,) of a frame with this sketch (ROWS, COLUMNS), in view of it."""
        at, gains = self._gains(similarity, sketch, GAIN)
        found = similarity.copy()
        found[at] += gains
        return found

    def heeded_by_all(self, similarity: Blocks, sketches: Callable[[slice], Sketches]) -> Blocks:
        """The same for all frames of a drive, by `OF_ALL`; `sketches` returns those of some consecutive frames."""
        n_frames, n_places = similarity.shape
        places = np.empty((n_frames, min(AMONG, n_places)), np.intp)
        gains = np.empty(places.shape, np.float32)
        for rows in in_blocks(n_frames):
            block, shown = similarity.block(rows), sketches(rows)
            for row, one, sketch in zip(range(rows.start, rows.stop), block, shown, strict=True):
                places[row], gains[row] = self._gains(one, sketch, OF_ALL)

        def block_of(rows: slice) -> Vectors:
            found = similarity.block(rows).copy()
            found[np.arange(len(found))[:, None], places[rows]] += gains[rows]
            return found

        return Blocks(similarity.shape, block_of)

    def _gains(self, similarity: Vectors, sketch: Sketches, gain: float) -> tuple[Indices, Vectors]:
        """Best places of a frame, and what is added to their similarities."""
        at = top_k(similarity[None], AMONG)[0]
        fits = fit_to_each(sketch, unpacked(self.packed[at]))
        above = np.clip(np.nan_to_num(fits - BY_CHANCE), 0.0, MOST)
        gains: Vectors = (gain * float(similarity.std()) * above).astype(similarity.dtype)
        return at, gains
