"""The recurrent classifier of the Geolife study, section 6 (extra `rnn`).

As printed: three LSTM layers, one fully connected layer with ReLU, dropout 0.1, eleven classes
(ten target users and the rest), trained on sanitised traces. Not printed, and chosen here: 64
units, windows of 30 fixes, a linear output after the ReLU layer (without it the network
cannot express a softmax), Adam at 0.003, a split by trip. Accuracy alone says little where
classes are uneven, so what always guessing the largest class gets and the mean over classes
stand beside it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.traces.windows_of_trips import FEATURES, Windows, choose_targets, windows_of
from sfumato.model.errors import UsageError
from sfumato.privacy.noise import SeededStream
from sfumato.traces.level import Strength
from sfumato.traces.mechanisms.independent import independent
from sfumato.traces.mechanisms.windows import on_printed_clock
from sfumato.traces.model import Traces

UNITS = 64
DROPOUT = 0.1
_RATE = 3e-3
_BATCH = 32


def available() -> bool:
    """Whether torch is installed."""
    return importlib.util.find_spec("torch") is not None


def classify(
    traces: Traces, noise_m: float, *, window_s: int = 300, seed: int = 1, epochs: int = 12
) -> dict[str, Any]:
    """Accuracies and confusion matrices for independent noise and for windows."""
    strength, root = Strength.from_noise(noise_m), SeededStream(seed).child("classifier")
    targets = choose_targets(traces, seed)
    forms = {
        "independent": independent(traces, strength, root.child("independent")),
        f"windows of {window_s} s": on_printed_clock(
            traces, window_s, strength, root.child("windows")
        ),
    }
    return {
        name: evaluate(windows_of(form, targets, seed), seed=seed, epochs=epochs)
        for name, form in forms.items()
    }


def evaluate(windows: Windows, *, seed: int, epochs: int, units: int = UNITS) -> dict[str, Any]:
    """Train on the training trips, test on the others."""
    truth = windows.classes[~windows.training]
    if truth.size == 0 or not windows.training.any():
        raise UsageError("There are too few trips to train and to test on.")
    guess = _train(windows, seed, epochs, units)
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
        "windows": int(truth.size),
        "confusion": confusion.tolist(),
    }


def _train(windows: Windows, seed: int, epochs: int, units: int) -> NDArray[np.int64]:
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
        loss = torch.nn.CrossEntropyLoss()
        model.train()
        for _ in range(epochs):
            for batch in rows[torch.randperm(rows.numel())].split(_BATCH):
                optimiser.zero_grad()
                loss(model(values[batch]), labels[batch]).backward()
                optimiser.step()
        model.eval()
        with torch.no_grad():
            tested = values[torch.from_numpy(~windows.training)]
            parts = [model(part).argmax(dim=1) for part in tested.split(1024)]
        return np.asarray(torch.cat(parts).numpy(), np.int64)
    finally:
        torch.set_rng_state(before)
        torch.set_num_threads(threads)


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise UsageError(
            "The recurrent classifier needs torch.", remedy="Install sfumato[rnn]."
        ) from None


def _network(torch: Any, classes: int, units: int) -> Any:
    class Recurrent(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.memory = torch.nn.LSTM(
                FEATURES, units, num_layers=3, dropout=DROPOUT, batch_first=True
            )
            self.head = torch.nn.Sequential(
                torch.nn.Dropout(DROPOUT),
                torch.nn.Linear(units, units),
                torch.nn.ReLU(),
                torch.nn.Linear(units, classes),
            )

        def forward(self, x: Any) -> Any:
            return self.head(self.memory(x)[0][:, -1])

    return Recurrent()
