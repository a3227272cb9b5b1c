"""The recurrent network of the study: sequences, gradients, clipping, and one trip among few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.model.extras import missing
from sfumato.model.traces import Box, Traces
from sfumato.utility.copying import advantage_bound, newcombe
from sfumato_lab.studies.synthesis import recurrent
from sfumato_lab.studies.synthesis.recurrent import (
    END,
    Network,
    Run,
    Sequences,
    sequences,
    sigma_for,
    walked,
)

BOX = Box(2.2, 48.7, 2.5, 49.0)
torch_is_there = pytest.mark.skipif(
    bool(missing("rnn")), reason="torch is not installed (extra rnn): no network to train"
)


def some(trips: list[list[int]], side: int = 4, clock: int = 3) -> Sequences:
    """Trips by the cells they pass."""
    begins = np.concatenate([[0], np.cumsum([len(trip) for trip in trips])])
    cells = np.array([cell for trip in trips for cell in trip])
    return walked(cells, begins, np.full(len(trips), clock), side)


def test_a_trip_is_cells_and_the_moves_between_them() -> None:
    data = some([[0, 1, 6], [5]])
    assert data.cells.tolist() == [[0, 1, 6], [5, 0, 0]]
    assert data.before.tolist() == [[END, 4, 7], [END, -1, -1]]
    assert data.moves.tolist() == [[4, 7, END], [END, -1, -1]]
    after = recurrent.after_move(4)
    assert [after[0, 4], after[1, 7], after[0, 0]] == [1, 6, -1]


def walks(trips: int, seed: int) -> Traces:
    """Trips of five fixes, each of a person of its own."""
    rng = np.random.default_rng(seed)
    lon = 2.35 + np.cumsum(rng.normal(0, 0.01, (trips, 5)), axis=1).ravel()
    lat = 48.85 + np.cumsum(rng.normal(0, 0.01, (trips, 5)), axis=1).ravel()
    minute = np.tile(np.arange(5), trips) + np.repeat(np.arange(trips), 5) * 60
    user = np.repeat(np.arange(trips), 5)
    names = np.array([f"u{k}" for k in range(trips)], object)
    time = 1_189_382_400_000_000 + minute * 60_000_000
    return Traces(names, user, np.zeros_like(user), time, lon, lat, np.arange(user.size))


@pytest.mark.privacy
def test_the_sequence_of_a_trip_hangs_on_that_trip_alone() -> None:
    traces = walks(6, 1)
    whole, without = (
        sequences(traces.pick(rows), BOX, 0) for rows in (traces.user >= 0, traces.user != 2)
    )
    others = whole.pick(np.array([0, 1, 3, 4, 5]))
    assert len(whole) == 6
    for name in ("clock", "cells", "before", "moves"):
        there, here = getattr(without, name), getattr(others, name)
        width = there.shape[-1] if name != "clock" else None
        assert np.array_equal(there, here[..., :width])


@pytest.mark.privacy
def test_noise_is_what_the_whole_run_needs() -> None:
    """Abadi et al. (2016), their example: chance .01, noise 4, 10,000 steps, delta 1e-5: 1.26."""
    assert sigma_for(0.01, 10_000, 1.26, 1e-5) < 4
    assert sigma_for(0.03, 400, 1.0, 1e-6) == pytest.approx(2.73, abs=0.02)
    assert sigma_for(0.03, 400, 2.0, 1e-6) < sigma_for(0.03, 400, 1.0, 1e-6)


@pytest.mark.torch
@torch_is_there
@pytest.mark.privacy
def test_gradients_are_those_of_each_trip_by_itself() -> None:
    """Against differences of the loss; beside other trips, longer ones too, nothing changes."""
    import torch

    net = Network(4, hidden=3)
    net.model.double()
    net.known, net.shut = net.known.double(), net.shut.double()
    with torch.no_grad():
        for part in net.model.parameters():
            part.add_(torch.randn(part.shape, generator=torch.Generator().manual_seed(1)) * 0.3)
    data = some([[0, 1, 6, 11], [5], [15, 10, 9, 8, 4, 0]])
    together = net.gradients(data)
    for row in range(3):
        alone = net.gradients(data.pick(np.array([row])))
        assert torch.allclose(together[row], alone[0], atol=1e-12)

    def loss() -> float:
        total = 0.0
        for k in range(3):
            size = int((data.moves[k] >= 0).sum())
            cells, before = data.cells[k, :size], data.before[k, :size]
            moves = torch.from_numpy(data.moves[k, :size])
            trip = (net.known[cells, before], net.shut[cells], moves, torch.tensor(cells[0]))
            total += float(net.model(*trip, torch.tensor(data.clock[k])).detach())
        return total

    column = 0
    rng = np.random.default_rng(1)
    for part in net.model.parameters():
        flat = part.data.reshape(-1)
        for k in rng.choice(flat.numel(), min(4, flat.numel()), replace=False).tolist():
            kept = float(flat[k])
            sides = []
            for moved in (kept + 1e-5, kept - 1e-5):
                flat[k] = moved
                sides.append(loss())
            flat[k] = kept
            slope = (sides[0] - sides[1]) / 2e-5
            assert float(together[:, column + k].sum()) == pytest.approx(slope, abs=1e-6)
        column += flat.numel()


@pytest.mark.torch
@torch_is_there
@pytest.mark.privacy
def test_a_trip_moves_a_sum_by_at_most_one() -> None:
    """Whatever its gradient is; one that is no number counts as nothing."""
    import torch

    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [1e30, 1e30], [float("nan"), 1.0]]).double()
    rows = torch.cat([rows, torch.tensor([[float("inf"), 1.0]]).double()])
    lengths = recurrent.clipped(rows).norm(dim=1)
    assert lengths.tolist() == pytest.approx([1, 0.5, 1, 0, 0])


class Seen:
    """Numbers that are drawn, and what was asked for."""

    def __init__(self, seed: int, noise: float = 1.0) -> None:
        self.rng, self.noise = np.random.default_rng(seed), noise
        self.coins: list[Any] = []
        self.sums: list[float] = []

    def random(self, size: int) -> Any:
        self.coins.append(self.rng.random(size))
        return self.coins[-1]

    def normal(self, mean: float, sigma: float, size: int) -> Any:
        self.sums.append(sigma)
        return self.noise * self.rng.normal(mean, sigma, size)


@pytest.mark.torch
@torch_is_there
@pytest.mark.privacy
def test_coins_are_fresh_and_the_divisor_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """What descent is given: the sum over those who joined, by the number that was expected."""
    import torch

    given: list[Any] = []
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda self: given.append(self.param_groups[0]["params"])
    )
    net, drawn = Network(4, hidden=3), Seen(1, noise=0.0)
    data = some([[0, 1, 6, 11]] * 20)
    run = Run(0.5, 3, 2.0, expected=40)
    means = []
    kept = torch.nn.utils.vector_to_parameters

    def noted(vector: Any, parameters: Any) -> None:
        means.append(vector.clone())
        kept(vector, parameters)

    monkeypatch.setattr(torch.nn.utils, "vector_to_parameters", noted)
    net.learn(data, run, drawn)  # type: ignore[arg-type]
    assert drawn.sums == [2.0] * 3
    joined = [int((coins < 0.5).sum()) for coins in drawn.coins]
    assert len({tuple(coins) for coins in drawn.coins}) == 3
    for mean, count in zip(means, joined, strict=True):
        assert float(mean.norm()) == pytest.approx(count / (0.5 * 40), rel=1e-4)


def played(runs: int) -> tuple[Any, float]:
    """An adversary who knows all others and the first gradient: with or without one trip."""
    others = [[5, 6], [10, 9, 8], [3, 2, 1]]
    with_one, without = some([*others, [0, 1, 6, 11, 15, 14, 9]]), some(others)
    begun = Network(4, hidden=3)
    towards = recurrent.clipped(begun.gradients(with_one.pick(np.array([3]))))[0]
    run = Run(0.9, 2, sigma_for(0.9, 2, 0.5, 1e-4), 4)
    scores = np.empty((2, runs))
    for side, data in enumerate((with_one, without)):
        for k in range(runs):
            scores[side, k] = score(data, run, 10_000 * side + k, towards)
    limit = np.median(np.concatenate([scores[0, ::2], scores[1, ::2]]))
    hits = [int((part[1::2] > limit).sum()) for part in scores]
    return newcombe(hits[0], runs // 2, hits[1], runs // 2), advantage_bound(0.5, 1e-4)


def score(data: Sequences, run: Run, seed: int, towards: Any) -> float:
    """How far the noisy gradients of a run go the way of the trip's own."""
    import torch

    net, way = Network(4, hidden=3), 0.0
    kept = torch.nn.utils.vector_to_parameters
    try:

        def noted(vector: Any, parameters: Any) -> None:
            nonlocal way
            way += float(vector @ towards)
            kept(vector, parameters)

        torch.nn.utils.vector_to_parameters = noted
        net.learn(data, run, np.random.default_rng(seed))
    finally:
        torch.nn.utils.vector_to_parameters = kept
    return way


@pytest.mark.torch
@torch_is_there
@pytest.mark.slow
@pytest.mark.privacy
def test_one_trip_is_hidden_in_the_noisy_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clipped, no advantage above the bound is proved; unclipped the same adversary has one."""
    hidden, bound = played(120)
    assert hidden.low <= bound
    monkeypatch.setattr(recurrent, "clipped", lambda gradients: 6 * gradients)
    broken, bound = played(120)
    assert broken.low > bound


@pytest.mark.torch
@torch_is_there
def test_the_study_trains_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "STEPS", 4)
    arguments = ["reproduce", "synthesis", "--out", str(tmp_path), "--quiet", "--no-figures"]
    arguments += ["--ground", "crowd", "--method", "recurrent", "--trips", "200"]
    arguments += ["--people", "1000", "--epsilons", "1", "--part", "trips"]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert "| recurrent | 1 |" in (tmp_path / "synthesis.internal.md").read_text("utf-8")


def test_people_are_never_published_by_it() -> None:
    from sfumato.synthesis.registry import method_named

    with pytest.raises(UsageError, match="no method 'recurrent'"):
        method_named("recurrent")
