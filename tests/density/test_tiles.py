"""Large tables by tiles of places: the numbers that the whole table gives, but for rounding."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.density.bayes.test_scheme import Small

from sfumato.density.bayes.crowds import find_crowds
from sfumato.density.refine.temporal import Spectrum, components, effective_noise
from sfumato.density.scheme import Density
from sfumato.density.tables import density_table
from sfumato.io.write import write_parquet, write_parquet_parts
from sfumato.model import tiles
from sfumato.model.time_grid import HourCalendar
from sfumato.published.posterior import unpacked
from sfumato.reports.encode import decode_numbers, encode_numbers


@pytest.fixture(scope="module")
def city() -> Small:
    return Small()


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "WHOLE", 1 << 9)


@pytest.mark.parametrize("shape", [(1, 1), (7, 100), (5_000, 400), (5_000, 500), (3, 1 << 21)])
def test_tiles_are_all_rows_once(shape: tuple[int, int]) -> None:
    parts = tiles.tiles(shape)
    assert [row for part in parts for row in range(part.start, part.stop)] == [*range(shape[0])]
    assert (len(parts) == 1) == (shape[0] * shape[1] <= tiles.WHOLE)


def test_a_reading_by_tiles_is_that_of_the_whole(
    city: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = city.run(1.0, 3)
    monkeypatch.setattr(tiles, "WHOLE", 1 << 9)
    parts = city.run(1.0, 3)
    near = {"rtol": 2e-3, "atol": 5e-3}
    for name in ("values", "lower", "upper", "median"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), **near)
    factors = [_factors(one) for one in (whole, parts)]
    np.testing.assert_allclose(factors[1].spread(), factors[0].spread(), rtol=0.02, atol=0.02)


def _factors(made: Density) -> object:
    assert made.posterior is not None
    values = np.asarray(made.values, dtype=np.float64)
    return unpacked(made.posterior.factors(values, 0.9), values)


@pytest.mark.usefixtures("small_tiles")
def test_a_spectrum_by_the_small_side() -> None:
    rng = np.random.default_rng(5)
    signal = np.outer(rng.normal(0, 9, 40), rng.normal(0, 1, 300))
    table = signal + rng.normal(0, 1, signal.shape)
    left, values, right = np.linalg.svd(table, full_matrices=False)
    found = Spectrum(table)
    np.testing.assert_allclose(found.values, values, rtol=1e-9)
    one = found.left[:, :1] * found.values[:1] @ found.right(slice(1))
    np.testing.assert_allclose(one, left[:, :1] * values[0] @ right[:1], atol=1e-9)
    assert effective_noise(table) == pytest.approx(1.0, rel=0.1)
    assert components(table, 1.0)[1].size == 1


def test_crowds_are_found_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = [datetime(2024, 3, 4) + timedelta(hours=k) for k in range(24 * 14)]
    calendar = HourCalendar.of(starts, [one + timedelta(hours=1) for one in starts])
    rng = np.random.default_rng(1)
    centres = rng.uniform(0, 9_000, (60, 2))
    rest = 0.7 * rng.standard_normal((60, len(starts)))
    rest[10, 50:53] += 12.0
    expected, jump = np.ones(rest.shape), np.ones(rest.shape)
    whole = find_crowds(rest.copy(), 0.7, expected, jump, centres, calendar)
    monkeypatch.setattr(tiles, "WHOLE", 1 << 9)
    parts = find_crowds(rest.copy(), 0.7, expected, jump, centres, calendar)
    assert whole
    assert [one.window for one in parts] == [one.window for one in whole]
    np.testing.assert_allclose(parts[0].mean, whole[0].mean, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("small_tiles")
def test_tables_and_pages_in_parts_say_the_same(city: Small, tmp_path: Path) -> None:
    made, grid = city.run(1.0, 3), city.grid
    table = density_table(made, grid)
    write_parquet(tmp_path / "whole.parquet", table)
    parts = (density_table(made, grid, rows) for rows in tiles.tiles(made.values.shape))
    write_parquet_parts(tmp_path / "parts.parquet", parts)
    assert pq.read_table(tmp_path / "parts.parquet").equals(table)
    assert pq.ParquetFile(tmp_path / "parts.parquet").num_row_groups > 1
    assert made.lower is not None
    assert made.upper is not None
    values = np.asarray(made.values, dtype=np.float64)
    read = decode_numbers(encode_numbers(values, made.lower, made.upper, made.median))
    np.testing.assert_allclose(read[0], values, atol=0.51)
