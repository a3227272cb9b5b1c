"""The recurrent classifier of the Geolife study, section 6 (extra `rnn`).

As printed: three LSTM layers, one fully connected layer with ReLU, dropout 0.1, eleven classes
(ten target users and the rest), trained on sanitised traces. Not printed, and chosen here: 64
units, windows of 30 fixes, a linear output after the ReLU layer (without it the network
cannot express a softmax), a split by trip, and how it is trained: orthogonal recurrent weights,
open forget gates, clipped gradients, Adam with a rate that rises to 0.003 and falls again (Smith
& Topin 2019). Three layers from default weights stay at the largest class for longer than a few
hundred trips last. All this was chosen on made-up commuters, and the number of steps on one
split of real traces that no figure is reported for.

*What it reads.* Ten users are drawn as targets, all others are class 0. A trip is cut into windows
of equal length; the split into training and test is by *trip*, so that no test window has
neighbours that were trained on. Features of a fix: east and north of the middle of all reports and
the step from the fix before, in units of their spread, hour of the day as sine and cosine,
whether it is a weekend, and the place once more as sines and cosines of four wavelengths from
four spreads down to half of one. Without these a network has to bend a plane around every home,
and a few hundred trips do not teach it to.

*What stands beside it.* Accuracy alone says little where classes are uneven. Beside it stand what
always guessing the largest class gets, the mean over classes, and the class of the training window
whose mean place is nearest, which needs no training.
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


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Sequences (n x length x features), their classes, and which of them are for training."""

    values: NDArray[np.float32]
    classes: NDArray[np.int64]
    training: NDArray[np.bool_]
    targets: NDArray[np.int64]


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
    )


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
STEPS = 600
_RATE = 3e-3
_BATCH = 64
_CLIP = 1.0


def available() -> bool:
    """Whether torch is installed."""
    return not missing("rnn")


def classify(
    traces: Traces, noise_m: float, *, window_s: int = 300, seed: int = 1, steps: int = STEPS
) -> dict[str, Any]:
    """Accuracies and confusion matrices for independent noise and for windows."""
    strength = Strength.from_noise(noise_m)
    wall = Wall.seeded(SeededStream(seed).child("classifier"))
    targets = choose_targets(traces, seed)
    forms = {
        "independent": simulated(traces, strength, wall, "independent"),
        f"windows of {window_s} s": simulated(traces, strength, wall, "windows", window_s=window_s),
    }
    return {
        name: evaluate(windows_of(form, targets, seed), seed=seed, steps=steps)
        for name, form in forms.items()
    }


def evaluate(
    windows: Windows, *, seed: int, steps: int = STEPS, units: int = UNITS
) -> dict[str, Any]:
    """Train on the training trips, test on the others."""
    truth = windows.classes[~windows.training]
    if truth.size == 0 or not windows.training.any():
        raise UsageError("There are too few trips to train and to test on.")
    guess = _train(windows, seed, steps, units)
    classes = windows.targets.size + 1
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (truth, guess), 1)
    present = confusion.sum(axis=1) > 0
    each = confusion.diagonal()[present] / confusion.sum(axis=1)[present]
    largest = np.bincount(windows.classes[windows.training], minlength=classes).argmax()
    return {
        "accuracy": float((truth == guess).mean()),
        "balanced": float(each.mean()),
        "majority": float((truth == largest).mean()),
        "nearest": float((truth == _nearest(windows)).mean()),
        "windows": int(truth.size),
        "confusion": confusion.tolist(),
    }


def _train(windows: Windows, seed: int, steps: int, units: int) -> NDArray[np.int64]:
    """Classes that the trained network gives the test windows."""
    torch = _torch()
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # sequences this short lose more to waiting than they gain
    try:
        model = _network(torch, windows.targets.size + 1, units)
        values = torch.from_numpy(windows.values)
        labels = torch.from_numpy(windows.classes)
        rows = torch.from_numpy(np.flatnonzero(windows.training))
        optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps)
        loss = torch.nn.CrossEntropyLoss()
        model.train()
        for _ in range(steps):
            batch = rows[torch.randint(rows.numel(), (_BATCH,))]
            optimiser.zero_grad()
            loss(model(values[batch]), labels[batch]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            optimiser.step()
            rate.step()
        model.eval()
        with torch.no_grad():
            tested = values[torch.from_numpy(~windows.training)]
            parts = [model(part).argmax(dim=1) for part in tested.split(1024)]
        return np.asarray(torch.cat(parts).numpy(), np.int64)
    finally:
        torch.set_rng_state(before)
        torch.set_num_threads(threads)


def _nearest(windows: Windows) -> NDArray[np.int64]:
    """Class of the training window with the nearest mean place, for every test window."""
    middle = windows.values[:, :, :2].mean(axis=1)
    _, at = cKDTree(middle[windows.training]).query(middle[~windows.training])
    return windows.classes[windows.training][at]


def _torch() -> Any:
    return optional("torch", "The recurrent classifier")


def _network(torch: Any, classes: int, units: int) -> Any:
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
                torch.nn.Linear(units, units),
                torch.nn.ReLU(),
                torch.nn.Linear(units, classes),
            )

        def forward(self, x: Any) -> Any:
            return self.head(self.memory(x)[0][:, -1])

    return Recurrent()
