"""Baselines: what comes out without linking anybody. An accuracy means something beside these.

* *random*: the table's own people, linked by lot in every slot;
* *stay*: the table's first slot of each day, held all day, days linked by lot;
* *map*: the true average map of these very people, which a release is meant to tell, and nobody's
  way: people held for the whole period at cells in proportion to it. An attack that is no better
  has found no more than the map;
* *average*: people held for the whole period at cells drawn from the average map of *other*
  people of the same town, the kind of thing a census tells.

Accuracies are judged by a fifth one, which has a file of its own: `everybody_else`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.tables import Fill, whole_people


def random_linking(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """`counts` as `whole_people` gives them: the last row is nowhere."""
    nowhere = counts.shape[0] - 1
    columns = [rng.permutation(np.repeat(np.arange(nowhere + 1), column)) for column in counts.T]
    return _marked(np.stack(columns, axis=1), nowhere)


def everybody_stays(
    counts: NDArray[np.int64], clock: Clock, rng: np.random.Generator
) -> NDArray[np.int32]:
    """`counts` as above; who is where at the start of a day is there until its end."""
    nowhere = counts.shape[0] - 1
    parts = []
    for slots in clock.days:
        start = rng.permutation(np.repeat(np.arange(nowhere + 1), counts[:, slots[0]]))
        parts.append(np.repeat(start[:, None], slots.size, axis=1))
    return _marked(np.concatenate(parts, axis=1), nowhere)


def population_average(
    average: NDArray[np.float64], people: int, slots: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """`average`: a non-negative map of other people, not all zero."""
    homes = rng.choice(average.size, size=people, p=average / average.sum())
    return np.repeat(homes[:, None], slots, axis=1).astype(np.int32)


def known_map(
    average: NDArray[np.float64], people: int, slots: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """`average`: the true mean counts, cell by cell, made whole by largest remainder."""
    held = whole_people(average[:, None], rng, fill=Fill.SCALE, people=people)[:-1, 0]
    homes = rng.permutation(np.repeat(np.arange(average.size), held))
    return np.repeat(homes[:, None], slots, axis=1).astype(np.int32)


def _marked(rows: NDArray[np.int64], nowhere: int) -> NDArray[np.int32]:
    return np.where(rows == nowhere, -1, rows).astype(np.int32)
