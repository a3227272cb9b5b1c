"""The recurrent classifier of the Geolife study, section 6 (extra `rnn`).

As printed: three LSTM layers, one fully connected layer with ReLU, dropout 0.1, eleven classes
(ten target users and the rest), trained on sanitised traces. Not printed, and chosen here: 64
units, windows of 30 fixes, a linear output after the ReLU layer (without it the network
cannot express a softmax), a split by trip, and how it is trained: orthogonal recurrent weights,
open forget gates, clipped gradients, Adam with a rate that rises to 0.003 and falls again (Smith
& Topin 2019).

*What it reads.* Ten users are drawn as targets, all others are class 0. A trip is cut into windows
of equal length; the split into training and test is by *trip*, so that no test window has
neighbours that were trained on. Features of a fix: east and north of the middle of all reports and
the step from the fix before, in units of their spread, hour of the day as sine and cosine,
whether it is a weekend, and the place once more as sines and cosines of four wavelengths from
four spreads down to half of one. Without these a network has to bend a plane around every home,
and a few hundred trips do not teach it to. Beside the sequence the last layers get what the
adversary knows of each target from the trips that he has the names of (`_context`): how well
the trip continues the target's last known one and leads to the next, and whether the target
was known to be elsewhere. People are recognised by where they live; cabs, which share streets
and garages, only by where they were a moment ago.

*How it learns from uneven classes.* The rest is hundreds of times as large as a target. Classes
are drawn equally often for a batch (weights in the loss did the same less steadily), the number of
steps follows the number of windows, and the weights that did best on a seventh of the training
trips, held back, are kept: by the mean over classes, which is also the headline. Accuracy
alone is won by always guessing the largest class.

*What stands beside it.* What always guessing the largest class gets, the mean over classes of the
class of the training window whose mean place is nearest, which needs no training, and chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.errors import UsageError
from sfumato.model.extras import missing, optional
from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.traces.cells import Cells
from sfumato.traces.mechanisms import simulated

TARGETS = 10
LENGTH = 30
WAVES = (1, 2, 4, 8)
FEATURES = 7 + 4 * len(WAVES)
_HOUR_US = 3600 * MICROSECONDS
_DAY_US = 24 * _HOUR_US
_TRAINED = 0.7
_NEAR_M, _SPEED_M_S, _UNKNOWN = 200.0, 3.0, -1.5
"""A stay moves by the first; people and cabs drift by the second; no known trip on that side."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Sequences (n x length x features), their classes, and which of them are for training."""

    values: NDArray[np.float32]
    classes: NDArray[np.int64]
    training: NDArray[np.bool_]
    targets: NDArray[np.int64]
    trip: NDArray[np.int64]
    context: NDArray[np.float32]
    """For each window what known trips of every target say about it (n x 3 targets)."""


def choose_targets(traces: Traces, seed: int, targets: int = TARGETS) -> NDArray[np.int64]:
    """Users to recognise, drawn among those with at least two trips."""
    starts = traces.starts[:-1]
    users, trips = np.unique(traces.user[starts], return_counts=True)
    able = users[trips >= 2]
    if able.size < 2:
        raise UsageError("Recognising people needs at least two users with two trips each.")
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(able, min(targets, able.size), replace=False)).astype(np.int64)


def windows_of(
    reports: Traces, targets: NDArray[np.int64], seed: int, length: int = LENGTH
) -> Windows:
    """Whole windows of every trip; the rest of a trip is left out, short trips are padded."""
    starts = reports.starts
    sizes = np.diff(starts)
    counts = np.maximum(sizes // length, 1)
    trip = np.repeat(np.arange(sizes.size), counts)
    number = np.arange(trip.size) - np.repeat(np.cumsum(counts) - counts, counts)
    at = starts[:-1][trip][:, None] + number[:, None] * length + np.arange(length)[None, :]
    at = np.minimum(at, starts[1:][trip][:, None] - 1)  # a short trip repeats its last fix
    user = reports.user[starts[:-1]][trip]
    rank = np.searchsorted(targets, user)
    known = (rank < targets.size) & (targets[np.minimum(rank, targets.size - 1)] == user)
    training = np.random.default_rng(seed + 1).random(sizes.size) < _TRAINED
    return Windows(
        _features(reports)[at],
        np.where(known, rank + 1, 0).astype(np.int64),
        training[trip],
        targets,
        trip,
        _context(reports, targets, training)[trip],
    )


def _context(
    reports: Traces, targets: NDArray[np.int64], training: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """For each trip and target: how well it continues the target's last known trip, how well it
    leads to the next one, and whether the target was on a known trip meanwhile.

    A continuation is judged by distance over what could have been gone in the time between. A
    trip is never held against itself, so training trips are seen as test trips are.
    """
    starts = reports.starts
    first, last = starts[:-1], starts[1:] - 1
    middle = float(np.median(reports.lon)), float(np.median(reports.lat))
    plane = Cells(*middle, 1, 1, 1.0, float(np.clip(middle[1], -89.0, 89.0)))
    place = np.column_stack(plane.metres(reports.lon, reports.lat))
    began, ended = reports.time[first] / MICROSECONDS, reports.time[last] / MICROSECONDS
    found = np.zeros((first.size, targets.size, 3), np.float32)
    for k, target in enumerate(targets):
        known = np.flatnonzero(training & (reports.user[first] == target))
        if known.size == 0:
            continue
        known = known[np.argsort(began[known], kind="stable")]
        # Trips of one user follow each other, so ends ascend as beginnings do.
        over = np.maximum.accumulate(ended[known])
        before = np.searchsorted(over, began, side="right") - 1
        after = np.searchsorted(began[known], ended, side="left")
        for way, index, here, there in ((0, before, first, last), (1, after, last, first)):
            exists = (index >= 0) & (index < known.size)
            other = known[np.clip(index, 0, known.size - 1)]
            away = np.hypot(*(place[here] - place[there[other]]).T)
            gap = np.abs(reports.time[here] - reports.time[there[other]]) / MICROSECONDS
            score = -np.log1p(away / (_NEAR_M + _SPEED_M_S * gap))
            found[:, k, way] = np.where(exists, score, _UNKNOWN)
        # Known trips strictly between the last before and the first after it overlap it.
        overlapping = after - before - 1
        own = np.isin(np.arange(first.size), known)
        found[:, k, 2] = (overlapping - own) > 0
    return found.reshape(first.size, -1)


def _features(reports: Traces) -> NDArray[np.float32]:
    middle = float(np.median(reports.lon)), float(np.median(reports.lat))
    plane = Cells(*middle, 1, 1, 1.0, float(np.clip(middle[1], -89.0, 89.0)))
    place = np.column_stack(plane.metres(reports.lon, reports.lat))
    step = np.diff(place, axis=0, prepend=place[:1])
    step[reports.starts[:-1]] = 0.0
    hour = (reports.time % _DAY_US) / _DAY_US * 2 * np.pi
    weekend = ((reports.time // _DAY_US + 3) % 7) >= 5
    scaled = place / max(float(place.std()), 1.0)
    turns = [scaled * (wave * np.pi / 2) for wave in WAVES]
    columns = [
        scaled,
        step / max(float(step.std()), 1.0),
        np.column_stack((np.sin(hour), np.cos(hour), weekend)),
        *(function(turn) for turn in turns for function in (np.sin, np.cos)),
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


UNITS = 64
DROPOUT = 0.1
EPOCHS, FEWEST, MOST = 24, 400, 2_000
"""Steps: so many passes over the training windows, within these limits. At most about a CPU-minute
(30 fixes, 64 units); the best weights came after 200 to 1,200 steps on every data set tried."""
_RATE = 3e-3
_DECAY = 1e-4
_BATCH = 64
_CLIP = 1.0
_HELD_BACK = 1 / 7
_LOOK = 100
"""Steps between looks at the held-back trips."""


def available() -> bool:
    """Whether torch is installed."""
    return not missing("rnn")


def classify(
    traces: Traces,
    noise_m: float,
    *,
    window_s: int = 300,
    seed: int = 1,
    steps: int | None = None,
) -> dict[str, Any]:
    """Accuracies and confusion matrices without noise, with independent noise, and for windows."""
    strength = Strength.from_noise(noise_m)
    wall = Wall.seeded(SeededStream(seed).child("classifier"))
    targets = choose_targets(traces, seed)
    forms = {
        "no noise": traces,
        "independent": simulated(traces, strength, wall, "independent"),
        f"windows of {window_s} s": simulated(traces, strength, wall, "windows", window_s=window_s),
    }
    return {
        name: evaluate(windows_of(form, targets, seed), seed=seed, steps=steps)
        for name, form in forms.items()
    }


def evaluate(
    windows: Windows, *, seed: int, steps: int | None = None, units: int = UNITS
) -> dict[str, Any]:
    """Train on the training trips, test on the others."""
    truth = windows.classes[~windows.training]
    if truth.size == 0 or not windows.training.any():
        raise UsageError("There are too few trips to train and to test on.")
    if steps is not None and steps < 1:
        raise UsageError("The network is trained for at least one step.")
    classes = windows.targets.size + 1
    limit = steps if steps is not None else steps_for(int(windows.training.sum()))
    guess, used = _train(windows, seed, limit, units)
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (truth, guess), 1)
    largest = np.bincount(windows.classes[windows.training], minlength=classes).argmax()
    return {
        "balanced": balanced(truth, guess),
        "chance": 1.0 / np.unique(truth).size,
        "accuracy": float((truth == guess).mean()),
        "majority": float((truth == largest).mean()),
        "nearest": balanced(truth, _nearest(windows)),
        "windows": int(truth.size),
        "steps": used,
        "confusion": confusion.tolist(),
    }


def steps_for(windows: int) -> int:
    """How long to train on so many windows."""
    return int(np.clip(EPOCHS * windows // _BATCH, FEWEST, MOST))


def balanced(truth: NDArray[np.int64], guess: NDArray[np.int64]) -> float:
    """Mean over the classes that occur of the share of their windows that is recognised."""
    _, which = np.unique(truth, return_inverse=True)
    right = np.bincount(which, weights=(truth == guess).astype(np.float64))
    return float((right / np.bincount(which)).mean())


def _train(windows: Windows, seed: int, steps: int, units: int) -> tuple[NDArray[np.int64], int]:
    """Classes that the trained network gives the test windows, and the steps that were best."""
    torch = _torch()
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # sequences this short lose more to waiting than they gain
    rng = np.random.default_rng(seed + 2)
    held, rows = _held_back(windows, rng)
    classes = windows.classes
    by_class = [rows[classes[rows] == k] for k in np.unique(classes[rows])]
    try:
        model = _network(torch, windows.targets.size + 1, windows.context.shape[1], units)
        values = torch.from_numpy(windows.values)
        context = torch.from_numpy(windows.context)
        labels = torch.from_numpy(classes)

        def guess(which: NDArray[np.int64]) -> NDArray[np.int64]:
            model.eval()
            with torch.no_grad():
                parts = [
                    model(values[part], context[part]).argmax(dim=1)
                    for part in torch.from_numpy(which).split(1024)
                ]
            model.train()
            return np.asarray(torch.cat(parts).numpy(), np.int64)

        optimiser = torch.optim.Adam(model.parameters(), lr=_RATE, weight_decay=_DECAY)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps)
        loss = torch.nn.CrossEntropyLoss()
        best, kept, used = -1.0, model.state_dict(), steps
        model.train()
        for step in range(1, steps + 1):
            drawn = rng.integers(len(by_class), size=_BATCH)
            batch = torch.from_numpy(np.array([rng.choice(by_class[k]) for k in drawn]))
            optimiser.zero_grad()
            loss(model(values[batch], context[batch]), labels[batch]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            optimiser.step()
            rate.step()
            if held.size and (step % _LOOK == 0 or step == steps):
                score = balanced(classes[held], guess(held))
                if score > best:
                    kept = {name: value.clone() for name, value in model.state_dict().items()}
                    best, used = score, step
        if held.size:
            model.load_state_dict(kept)
        return guess(np.flatnonzero(~windows.training)), used
    finally:
        torch.set_rng_state(before)
        torch.set_num_threads(threads)


def _held_back(
    windows: Windows, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Windows of training trips that are held back, and those that are trained on.

    At most 4,000 are looked at: more would take longer than the training between two looks.
    """
    trips = np.unique(windows.trip[windows.training])
    some = rng.permutation(trips)[: round(_HELD_BACK * trips.size)]
    away = windows.training & np.isin(windows.trip, some)
    rows = np.flatnonzero(windows.training & ~away)
    if rows.size == 0:
        return np.empty(0, np.int64), np.flatnonzero(windows.training)
    return rng.permutation(np.flatnonzero(away))[:4_000], rows


def _nearest(windows: Windows) -> NDArray[np.int64]:
    """Class of the training window with the nearest mean place, for every test window."""
    middle = windows.values[:, :, :2].mean(axis=1)
    _, at = cKDTree(middle[windows.training]).query(middle[~windows.training])
    return windows.classes[windows.training][at]


def _torch() -> Any:
    return optional("torch", "The recurrent classifier")


def _network(torch: Any, classes: int, known: int, units: int) -> Any:
    class Recurrent(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.memory = torch.nn.LSTM(
                FEATURES, units, num_layers=3, dropout=DROPOUT, batch_first=True
            )
            for name, weights in self.memory.named_parameters():
                if name.startswith("weight_hh"):
                    torch.nn.init.orthogonal_(weights)
                elif name.startswith("weight_ih"):
                    torch.nn.init.xavier_uniform_(weights)
                else:  # two biases add up: a forget gate begins at one
                    weights.data[units : 2 * units] = 0.5
            self.head = torch.nn.Sequential(
                torch.nn.Dropout(DROPOUT),
                torch.nn.Linear(units + known, units),
                torch.nn.ReLU(),
                torch.nn.Linear(units, classes),
            )

        def forward(self, x: Any, context: Any) -> Any:
            return self.head(torch.cat((self.memory(x)[0][:, -1], context), dim=1))

    return Recurrent()
