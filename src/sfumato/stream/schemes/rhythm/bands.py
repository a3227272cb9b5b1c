"""Cells sorted into bands of like level: one set of weights serves a whole band."""

from __future__ import annotations

import numpy as np

from sfumato.stream.contract import Values


class Bands:
    """`apart` is snapshot x cell, what was measured less the prior mean."""

    def __init__(self, level: Values, apart: Values) -> None:
        bands = np.rint(2 * np.log2(level)).astype(np.int64)
        self._order = np.argsort(bands, kind="stable")
        found, self._starts = np.unique(bands[self._order], return_index=True)
        self._stops = np.append(self._starts[1:], level.size)
        self._apart = np.ascontiguousarray(apart[:, self._order])
        self.levels = 2.0 ** (found / 2)

    def combined(self, share: Values) -> Values:
        """Every cell's snapshots added up with its band's weights (band x snapshot)."""
        out = np.empty(self._order.size)
        out[self._order] = np.concatenate(
            [
                row @ self._apart[:, start:stop]
                for row, start, stop in zip(share, self._starts, self._stops, strict=True)
            ]
        )
        return out

    def of_each(self, values: Values) -> Values:
        """A number of every band, for each of its cells."""
        out = np.empty(self._order.size)
        out[self._order] = np.repeat(values, self._stops - self._starts)
        return out
