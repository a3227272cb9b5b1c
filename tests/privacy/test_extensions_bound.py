"""What comes in by an entry point stands under the wall's rules before anything of it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import PrivateNumbers, UsageError
from sfumato.model import extensions, private
from sfumato.model.private import Private

pytestmark = pytest.mark.privacy
WAVES = Path(__file__).parents[1] / "fixtures" / "extension"
OPENS = "from sfumato.privacy.door import open_private\n"
BOX = "from sfumato.model.private import Private\nfound = open_private(Private(1, 'made-up'))\n"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Makes the packages of a folder installed ones, until the test is over."""
    before = set(sys.modules)
    monkeypatch.setattr(private, "_BOUND", {"sfumato", "sfumato_lab"})

    def make(folder: Path) -> None:
        monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()
        extensions._tables.cache_clear()

    yield make
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"waves", "foam"}:
            del sys.modules[name]
    extensions._tables.cache_clear()


def distribution(folder: Path, name: str, offers: str, **modules: str) -> Path:
    """A package with a table of offers, and what says that it is installed."""
    package, about = folder / name, folder / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{extensions.GROUP}]\n{name} = {name}.offers:OFFERS\n"
    )
    for module, text in {"__init__": "", "offers": offers, **modules}.items():
        (package / f"{module}.py").write_text(text)
    return folder


def test_what_is_offered_is_loaded_under_the_rules(install: Callable[[Path], None]) -> None:
    install(WAVES)
    assert not private.is_bound("waves.tides")
    offer = extensions.offers("command")["tides"]
    assert (offer.distribution, offer.version) == ("waves", "1.0")
    assert "waves.tides" not in sys.modules, "listing loads no more than the table"
    box = Private(np.arange(3), "made-up numbers")
    assert offer.load()(box) == "made-up numbers"
    assert private.is_bound("waves.tides")
    assert extensions.failures() == ()


def test_a_table_that_opens_a_box_is_a_failure(
    install: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is bound before it is loaded, and what it does then takes no command with it."""
    install(distribution(tmp_path, "waves", f"{OPENS}{BOX}OFFERS = ()\n"))
    assert "tides" not in extensions.offers("command")
    (failure,) = extensions.failures()
    assert failure == extensions.Failure("waves", "its table of offers: PrivateNumbers")


@pytest.mark.parametrize("module", ["waves.tides", "foam.tides"])
def test_a_module_that_opens_a_box_while_it_is_loaded_is_refused(
    module: str, install: Callable[[Path], None], tmp_path: Path
) -> None:
    """Also one of another package than the table's."""
    table = f"OFFERS = (('command', 'tides', 'High water.', '{module}:found'),)\n"
    folder = distribution(tmp_path, "waves", table)
    package = folder / module.partition(".")[0]
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "tides.py").write_text(OPENS + BOX)
    install(folder)
    with pytest.raises(UsageError, match="does not load") as refused:
        extensions.offers("command")["tides"].load()
    assert isinstance(refused.value.__cause__, PrivateNumbers)
    assert f"{module} may not open" in str(refused.value.__cause__)


def test_what_a_distribution_brings_under_another_name_is_its_code(
    install: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is bound with the rest, and a reservation's digest holds it."""
    table = "OFFERS = (('command', 'tides', 'High water.', 'waves.tides:high'),)\n"
    high = "import foam\ndef high(box): return foam.total(box)\n"
    folder = distribution(tmp_path, "waves", table, tides=high)
    (folder / "foam.py").write_text(f"{OPENS}def total(box): return open_private(box).sum()\n")
    files = ("foam.py", "waves/__init__.py", "waves/offers.py", "waves/tides.py")
    record = "".join(f"{name},,\n" for name in files)
    (folder / "waves-1.0.dist-info" / "RECORD").write_text(record)
    install(folder)
    offer = extensions.offers("command")["tides"]
    with pytest.raises(PrivateNumbers, match="foam may not open"):
        offer.load()(Private(np.arange(3), "made-up numbers"))
    before = offer.provenance()
    (folder / "foam.py").write_text("def total(box): return 0\n")
    assert offer.provenance() != before
    (folder / "foam.py").write_text("def total(box: return 0\n")
    assert offer.provenance() != before, "code that does not parse has a digest as well"


def test_a_table_without_an_end_is_a_failure(
    install: Callable[[Path], None], tmp_path: Path
) -> None:
    endless = "import itertools\nOFFERS = itertools.repeat(('command', 'a', 'b', 'c:d'))\n"
    install(distribution(tmp_path, "waves", endless))
    assert extensions.failures() == (extensions.Failure("waves", "its table of offers: TypeError"),)
