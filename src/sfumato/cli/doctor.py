"""`sfumato doctor`: is everything there that a release needs, and who else can get at the keys?"""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.command import say_in_flags
from sfumato.cli.options import OUTPUT, AsJson, KeyFile, Quiet, Where, open_ledger, shared
from sfumato.cli.telling import Working, print_json
from sfumato.errors import SfumatoError, UsageError, without_secrets
from sfumato.model.extensions import KINDS, failures, offers
from sfumato.model.extras import EXTRAS, line_for, missing
from sfumato.model.rounding import number_of

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Ledger

_CORE = ("numpy", "scipy", "numba", "duckdb", "pyarrow", "shapely", "pyproj", "geopandas")
_JAVA = 17
OK, ABSENT, WRONG = "ok", "absent", "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, and what to do where it is not well."""

    check: str
    status: str
    """`ok`, `absent` (not there and not needed by everybody) or `wrong`."""
    found: str
    do: str = ""


def doctor(
    context: typer.Context,
    ledger: Where = None,
    ledger_key: KeyFile = None,
    out: Annotated[
        Path, shared(OUTPUT, "--out", "Folder that releases will be written to; default: here.")
    ] = Path(),
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Compile beforehand what a first run would wait for."),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check the installation, extras, the ledger, its keys and who else may read them, folders,
    and the clock. Exit code 1 if something is wrong; what is only absent is not.

    With --warm a small made-up city is released first, in a temporary folder, so that compiled
    code is there: for an image whose packages will be read-only, while it is built.

    Example:
        sfumato doctor --ledger books/ledger.sqlite --out releases
    """
    done: list[Check] = []
    with Working(quiet or as_json, "checking") as progress:
        if warm:
            from sfumato.cli.warming import warm as compile_beforehand

            compile_beforehand(progress)
        for stage, checks in (
            ("loading packages", _install),
            ("looking for extras", _extras),
            ("loading what other distributions add", _extensions),
            ("checking the ledger", lambda: _books(open_ledger(ledger, ledger_key))),
            ("checking folders and the clock", lambda: _around(out)),
        ):
            progress(stage, -1.0)
            done += _guarded(stage, checks, context)
    wrong = [check for check in done if check.status == WRONG]
    if as_json:
        print_json({"sound": not wrong, "checks": [asdict(check) for check in done]})
    elif not quiet:
        for check in done:
            typer.echo(f"{check.status:<7} {check.check}: {without_secrets(check.found)}")
            if check.do:
                typer.echo(f"{'':<7} do: {without_secrets(check.do)}")
        typer.echo(f"{len(wrong)} wrong." if wrong else "Nothing is wrong.")
    if wrong:
        raise typer.Exit(1)


def _guarded(
    stage: str, checks: Callable[[], Iterator[Check]], context: typer.Context
) -> Iterator[Check]:
    """Checks, of which one that raises is a finding of its own and not the end."""
    try:
        yield from checks()
    except SfumatoError as error:
        say_in_flags(error, list(context.command.params))
        yield Check(stage, WRONG, error.problem, error.remedy)


def _install() -> Iterator[Check]:
    from sfumato import __version__

    yield Check("sfumato", OK, f"{__version__} on Python {platform.python_version()}")
    for name in _CORE:
        try:
            import_module(name)
            yield Check(name, OK, version(name))
        except (ImportError, PackageNotFoundError) as error:
            yield Check(name, WRONG, str(error), "Install it again: pip install -U sfumato")
    yield _compiled_cache()


def _compiled_cache() -> Check:
    """Where compiled code is kept: with the package, or else in a folder of the user's own."""
    import sfumato
    from sfumato.model.compiled import compiled_folders

    folders = compiled_folders(Path(sfumato.__file__).parent / "engine")
    for folder, may_write in folders:
        if may_write:
            return Check("compiled code", OK, f"kept in {folder}")
    if any(next(folder.glob("*.nbi"), None) for folder, _ in folders):
        return Check("compiled code", OK, f"read from {folders[0][0]}, which cannot be written")
    return Check(
        "compiled code",
        ABSENT,
        "there is no folder to keep it in: it is compiled in every run, some 10 seconds of it",
        "Set NUMBA_CACHE_DIR to a folder that only you can write, or run sfumato doctor --warm "
        "while the package can be written.",
    )


def _extras() -> Iterator[Check]:
    for extra, modules in EXTRAS.items():
        if absent := missing(extra):
            do = f"If you need it: {line_for(extra)}"
            yield Check(f"extra {extra}", ABSENT, f"no {', '.join(absent)}", do)
        elif extra == "spark":
            yield _spark()
        else:
            yield Check(f"extra {extra}", OK, ", ".join(modules))


def _extensions() -> Iterator[Check]:
    """What stands in tables of offers, loaded: nothing else finds out before it is asked for."""
    broken = [(failure.distribution, failure.problem, "") for failure in failures()]
    sound: Counter[str] = Counter()
    for offer in (offer for kind in KINDS for offer in offers(kind).values()):
        try:
            offer.load()
            sound[offer.distribution] += 1
        except UsageError as error:
            broken.append((offer.distribution, error.problem, error.remedy))
    for distribution, problem, remedy in broken:
        yield Check(f"added by {distribution}", WRONG, problem, remedy)
    for distribution, number in sound.items():
        yield Check(f"added by {distribution}", OK, number_of(number, "offers"))


def _spark() -> Check:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    do = f"For --engine spark, install Java {_JAVA} or later, or set JAVA_HOME."
    if java is None:
        return Check("extra spark", ABSENT, "pyspark, but no Java", do)
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return Check("extra spark", ABSENT, f"{java} does not run", do)
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if found is None or int(found[1]) < _JAVA:
        return Check("extra spark", ABSENT, f"Java {found[1] if found else '?'} at {java}", do)
    return Check("extra spark", OK, f"pyspark {version('pyspark')}, Java {found[1]}")


def _books(book: Ledger) -> Iterator[Check]:
    from sfumato.privacy.ledger import views

    file = book.database.file
    if file is not None and not file.exists():
        do = "Make one: sfumato ledger init --dataset NAME --cap-epsilon E --cap-delta D"
        yield Check("ledger", ABSENT, f"none yet at {file}", do)
        if book.keyring.exists():
            yield from _keys(book)
        return
    yield from _keys(book)
    report = views.verify(book)
    for finding in report.findings:
        do = "Restore it from its newest copy; see sfumato ledger verify."
        yield Check("ledger", WRONG, finding.removeprefix("the ledger: "), do)
    if report.findings:
        return
    yield Check(
        "ledger", OK, f"{book.database}: {number_of(report.rows, 'rows')}, every seal holds"
    )
    for note in report.notes:
        yield Check("ledger", OK, note)
    for entry in views.show(book.book())["datasets"]:
        over = [unit["unit"] for unit in entry["units"] if unit["over_cap"]]
        what = f"data set {entry['dataset']}"
        if over:
            do = "Nothing new is admitted; see sfumato ledger show."
            yield Check(what, WRONG, f"over the cap for {', '.join(over)}", do)
        else:
            units = ", ".join(unit["unit"] for unit in entry["units"])
            yield Check(what, OK, f"within its cap, unit {units}")
    last = datetime.fromisoformat(book.entries()[-1].time)
    now = datetime.now(UTC)
    if now < last:
        yield Check(
            "clock",
            WRONG,
            f"it is {now:%Y-%m-%d %H:%M} UTC, before the ledger's last row ({last:%Y-%m-%d %H:%M})",
            "Set the machine's clock; the ledger's rows are in order of time.",
        )


def _keys(book: Ledger) -> Iterator[Check]:
    """Is the key there, and who else may read it or a release's (`Keyring`)?"""
    from sfumato.privacy.ledger.chain import others_of

    key = book.keyring.path
    if not book.keyring.exists():
        yield Check(
            "ledger's key",
            WRONG,
            f"not at {key}",
            "Copy it there from where the ledger was made, or name it with --ledger-key.",
        )
        return
    open_files = book.keyring.readable_by_others()
    if book.database.file is not None and (who := others_of(book.database.file)):
        open_files.append((book.database.file, who))
    for path, who in open_files:
        yield Check("keys", WRONG, f"{path} can be read by {who}", f"chmod 600 '{path}'")
    if not open_files:
        yield Check("keys", OK, f"{key}: only you may read it; keep a copy apart from the ledger")
    parent = key.absolute().parent
    if parent.stat().st_mode & stat.S_IWOTH and not parent.stat().st_mode & stat.S_ISVTX:
        yield Check(
            "keys", WRONG, f"anybody can replace files in {parent}", f"chmod 700 '{parent}'"
        )


def _around(out: Path) -> Iterator[Check]:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    for what, folder in (("releases", out), ("temporary files", Path(tempfile.gettempdir()))):
        if _may_write(folder):
            near = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
            free = shutil.disk_usage(near).free / 2**30
            yield Check(what, OK, f"{folder.absolute()} can be written, {free:.0f} GiB free")
        else:
            do = (
                "Choose another --out."
                if what == "releases"
                else "Set TMPDIR to a folder of yours."
            )
            yield Check(what, WRONG, f"{folder.absolute()} cannot be written", do)
    try:
        ZoneInfo("Europe/Paris")
        yield Check("time zones", OK, "the database of time zones is there")
    except ZoneInfoNotFoundError:
        yield Check("time zones", WRONG, "there is no database of them", "pip install tzdata")


def _may_write(folder: Path) -> bool:
    """Whether files can be made there; a folder that is not there yet, in the next one above."""
    near = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=near):
            return True
    except OSError:
        return False
