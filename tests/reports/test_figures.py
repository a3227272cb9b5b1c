from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import shapely
from PIL import Image
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.model.places import PlaceKind, Places
from sfumato.reports.figures import plot, write_figures


def test_figures_are_pictures_and_come_out_the_same_twice(release: Path, tmp_path: Path) -> None:
    first, second = (write_figures(release, tmp_path / name) for name in "ab")
    assert [p.name for p in first] == [
        "map.png", "map.svg", "series.png", "series.svg", "strip.png", "strip.svg",
    ]  # fmt: skip
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    colours = Image.open(first[0]).convert("RGB").resize((200, 175)).getcolors(35_000)
    assert colours is not None
    assert len(colours) > 100
    text = first[1].read_text("utf-8")
    assert "ε = 0.3" in text
    assert "protecting one person's whole record in the period" in text


def test_a_zone_and_a_slot_can_be_chosen_and_must_exist(release: Path) -> None:
    series = plot(release, "series", zone="Z00003")
    assert "quarter" in series.axes[0].get_title(loc="left")
    noon = plot(release, "map", slot=12)
    assert "Monday 10 September 2007, 12:00–13:00 (CEST)" in noon.axes[0].get_title(loc="left")
    for wrong in ({"kind": "pie"}, {"slot": 168}, {"zone": "nowhere"}):
        with pytest.raises(UsageError):
            plot(release, **wrong)  # type: ignore[arg-type]


def test_the_strip_has_the_classes_of_the_map(release: Path) -> None:
    drawn = [plot(release, kind).axes[0] for kind in ("map", "strip")]
    named = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in drawn]
    assert named[0][: len(named[1])] == named[1]
    colours = [
        [patch.get_facecolor() for patch in axes.get_legend().get_patches()] for axes in drawn
    ]
    assert colours[0][: len(colours[1])] == colours[1]
    classes = np.unique(drawn[1].get_images()[0].get_array())
    assert classes.tolist() == list(range(len(named[1])))


def test_a_map_of_mostly_empty_zones_and_of_noise_around_zero(
    make_release: Callable[..., Path], tmp_path: Path
) -> None:
    """Streams publish such: most quantiles are zero, or a rounded one is above the largest."""
    cells = [shapely.box(2 + k / 50, 48, 2 + (k + 1) / 50, 48.03) for k in range(9)]
    places = Places.of(PlaceKind.ZONES, [str(k) for k in range(9)], cells)
    noise = np.random.default_rng(0).normal(0, 9, (9, 24))
    for k, counts in enumerate((np.zeros((9, 24)), np.eye(9, 24), noise, np.full((9, 24), 9.6e6))):
        folder = make_release(tmp_path / str(k), places, days=1, counts=counts, intervals=False)
        plot(folder, "map").savefig(tmp_path / f"{k}.svg")


def test_the_command_writes_pages_and_figures(release: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["report", str(release), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.output) == [str(release / "index.html")]
    both = ["report", str(release), str(release), "--out", str(tmp_path / "two.html"), "--quiet"]
    run = CliRunner().invoke(app, both)
    assert run.exit_code == 0
    assert (tmp_path / "two.html").stat().st_size > (release / "index.html").stat().st_size
    assert run.output == ""
