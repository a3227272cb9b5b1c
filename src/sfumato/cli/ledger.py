"""`sfumato ledger`: what was ever released about whom, what is left, and whether it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.accounts import spent, tell_accounts, tell_history
from sfumato.cli.options import (
    OUTPUT,
    PRIVACY,
    Analyst,
    AsJson,
    CapEpsilon,
    Dataset,
    Delta,
    Epsilon,
    KeyFile,
    UnitName,
    Where,
    open_ledger,
    own,
    shared,
)
from sfumato.cli.telling import Working
from sfumato.model.rounding import number_of

if TYPE_CHECKING:
    from sfumato.privacy.ledger.records import Book

app = typer.Typer(
    name="ledger",
    help="What was ever released about whom, what is left, and whether the record is whole.",
    epilog="Example:\n\nsfumato ledger show",
    no_args_is_help=True,
)

OnlyDataset = Annotated[
    str | None, shared(PRIVACY, "--dataset", "Only this data set and those linked to it.")
]
CapDelta = Annotated[
    float | None, shared(PRIVACY, "--cap-delta", "The delta of the cap's epsilon.")
]
# An allowance is never the cap that stands above the tables of a file.
OwnEpsilon = Annotated[
    float | None, own(PRIVACY, "--cap-epsilon", "Most epsilon that the analyst may ask for.")
]
OwnDelta = Annotated[float | None, own(PRIVACY, "--cap-delta", "The delta of that epsilon.")]
CapRho = Annotated[
    float | None,
    typer.Option(help="Most rho (zCDP) of all releases together.", rich_help_panel=PRIVACY),
]
Manifests = Annotated[
    Path | None,
    typer.Option(help="Folder of published releases to check against.", rich_help_panel=OUTPUT),
]


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False))


def _book(where: str | None, key: Path | None, dataset: str | None) -> Book:
    """What the ledger's rows add up to; a data set that is named must be in it."""
    from sfumato.errors import UsageError

    book = open_ledger(where, key).book()
    if dataset is not None and dataset not in book.caps:
        known = ", ".join(sorted(book.caps)) or "none yet"
        raise UsageError(f"The ledger knows no data set {dataset!r}.", remedy=f"It knows: {known}.")
    return book


@app.command()
def init(
    dataset: Dataset,
    cap_epsilon: CapEpsilon = None,
    cap_delta: CapDelta = None,
    cap_rho: CapRho = None,
    unit: UnitName = "user-period",
    replace_cap: Annotated[
        bool,
        typer.Option(
            "--replace-cap",
            help="Change the cap of a data set, on the record.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Name a data set and cap what may ever be released about its people.

    Example:
        sfumato ledger init --dataset "metro subscribers"
        --cap-epsilon 2 --cap-delta 1e-7
    """
    from sfumato.privacy.events import Unit, UnitKind
    from sfumato.privacy.ledger import Cap

    cap, of = Cap(cap_epsilon, cap_delta, cap_rho), Unit.parse(unit)
    found = open_ledger(ledger, ledger_key)
    found.initialise()
    if replace_cap:
        found.set_cap(dataset, cap, of)
    else:
        found.add_dataset(dataset, cap, of)
    how = (
        "over all releases, for ever"
        if of.kind in (UnitKind.USER_PERIOD, UnitKind.POINT)
        else "charges for other units included"
    )
    typer.echo(f"{dataset}: at most {cap} for the unit {of}, {how}.")
    typer.echo(f"Ledger: {found.database}")
    typer.echo(f"Key:    {found.keyring.path} (keep a copy apart from the ledger)")


@app.command()
def allow(
    dataset: Dataset,
    analyst: Analyst,
    cap_epsilon: OwnEpsilon = None,
    cap_delta: OwnDelta = None,
    cap_rho: CapRho = None,
    unit: UnitName = "user-period",
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Say what one analyst may ask of a data set, inside its cap; or change it, on the record.

    Example:
        sfumato ledger allow --dataset "metro subscribers" --analyst ann
        --cap-epsilon 0.5 --cap-delta 1e-7
    """
    from sfumato.privacy.events import Unit
    from sfumato.privacy.ledger import Cap

    cap, of = Cap(cap_epsilon, cap_delta, cap_rho), Unit.parse(unit)
    open_ledger(ledger, ledger_key).set_allowance(dataset, analyst, cap, of)
    typer.echo(
        f"{analyst} may ask for at most {cap} about {dataset}, for the unit {of}; the cap over "
        "everybody holds besides. Analysts without an allowance are refused from here on; a "
        "question without --analyst is the holder's own."
    )


@app.command()
def show(
    dataset: OnlyDataset = None,
    as_json: AsJson = False,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """What was spent of each cap, and the loss per unit that results from everything.

    Example:
        sfumato ledger show --dataset "metro subscribers"
    """
    from rich.console import Console

    from sfumato.privacy.ledger import views

    data = views.show(_book(ledger, ledger_key, dataset), dataset)
    if as_json:
        _print_json(data)
        return
    tell_accounts(Console(), data)


@app.command()
def history(
    dataset: OnlyDataset = None,
    as_json: AsJson = False,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Every release, in order, and what it cost: begun in UTC, its period in the clock of the data.

    Example:
        sfumato ledger history --json
    """
    from rich.console import Console

    from sfumato.privacy.ledger import views

    data = views.history(_book(ledger, ledger_key, dataset), dataset)
    if as_json:
        _print_json(data)
        return
    tell_history(Console(), data)


@app.command()
def plan(
    dataset: Dataset,
    epsilon: Epsilon,
    delta: Delta,
    releases: Annotated[
        int | None,
        typer.Option(
            min=1, help="Also: the largest epsilon for this many more.", rich_help_panel=PRIVACY
        ),
    ] = None,
    unit: UnitName = "user-period",
    as_json: AsJson = False,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """How many more releases of this size fit under the cap?

    Example:
        sfumato ledger plan --dataset "metro subscribers"
        --epsilon 0.3 --delta 1e-7 --releases 52
    """
    from sfumato.privacy.events import Unit
    from sfumato.privacy.ledger import views
    from sfumato.privacy.ledger.limits import MOST_RELEASES
    from sfumato.published.statement import by_rules_words

    book = _book(ledger, ledger_key, dataset)
    data = views.plan(book, dataset, Unit.parse(unit), epsilon, delta, releases)
    if as_json:
        _print_json(data)
        return
    more = data["more_releases"]
    least = "At least " if more >= MOST_RELEASES else ""
    typer.echo(
        f"{least}{more} more release{'' if more == 1 else 's'} at epsilon {epsilon:g}, "
        f"delta {delta:g} "
        f"fit{'s' if more == 1 else ''}; the account of {dataset!r} then stands at "
        f"{spent(data['then_spent'])}."
    )
    if data["by_rules"]:
        typer.echo(by_rules_words(data["by_rules"]))
    if releases is not None:
        largest = data["for_releases"]["largest_epsilon_each"]
        typer.echo(f"For {number_of(releases, 'releases')} more: epsilon {largest:g} each.")


@app.command()
def verify(
    manifests: Manifests = None,
    as_json: AsJson = False,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Was any row edited, removed, reordered or cut off? Exit code 1 if so.

    Example:
        sfumato ledger verify --manifests releases
    """
    from sfumato.privacy.ledger.views import verify as look

    with Working(as_json, "checking every seal"):
        report = look(open_ledger(ledger, ledger_key), manifests)
    if as_json:
        _print_json(
            {
                "sound": report.sound,
                "rows": report.rows,
                "manifests": report.manifests,
                "findings": list(report.findings),
                "notes": list(report.notes),
            }
        )
    else:
        verdict = "sound" if report.sound else "NOT sound"
        typer.echo(
            f"{verdict}: {number_of(report.rows, 'rows')} by their seals, "
            f"{number_of(report.manifests, 'manifests')} by the rows that they name, files by the "
            "digests in rows that commit releases"
        )
        for finding in report.findings:
            typer.echo(f"  wrong: {finding}")
        for note in report.notes:
            typer.echo(f"  note: {note}")
    if not report.sound:
        raise typer.Exit(1)


@app.command()
def trust(
    manifests: Manifests = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Introduce this machine to a ledger, or accept one whose noted head was lost.

    Example:
        sfumato ledger trust --ledger books/ledger.sqlite --manifests releases
    """
    from sfumato.errors import LedgerBroken
    from sfumato.privacy.ledger.views import verify as look

    found = open_ledger(ledger, ledger_key)
    if manifests is not None:
        missing = [text for text in look(found, manifests).findings if "no note" not in text]
        if missing:
            raise LedgerBroken(
                f"The ledger does not agree with what was published: {missing[0]}.",
                remedy="Restore it from its newest copy. Nothing was accepted.",
            )
    head = found.trust()
    typer.echo(
        f"Accepted as it stands, on the record: {number_of(head.length, 'rows')}, last seal "
        f"{head.hash[:16]}."
    )
    typer.echo("Compare both with another machine, or with the newest manifest, if you can.")


@app.command()
def export(
    out: Annotated[Path | None, shared(OUTPUT, "--out", "File; default: standard output.")] = None,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Every row with its seal, one JSON object a line. Holds no key; internal all the same.

    Example:
        sfumato ledger export --out ledger.ndjson
    """
    from sfumato.privacy.ledger.chain import write_private

    rows = open_ledger(ledger, ledger_key).entries()
    lines = (
        json.dumps({n: getattr(row, n) for n in row.__slots__}, sort_keys=True, ensure_ascii=False)
        for row in rows
    )
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_private(out, text.encode())


@app.command()
def link(
    datasets: Annotated[list[str], typer.Argument(help="Data sets that hold the same people.")],
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Say that data sets hold the same people: they share the cap and their spends add.

    Example:
        sfumato ledger link "metro subscribers" "metro prepaid"
    """
    open_ledger(ledger, ledger_key).link(datasets)
    typer.echo(f"Linked for good: {', '.join(sorted(set(datasets)))}.")


@app.command()
def abandon(
    name: Annotated[str, typer.Argument(help="Name of the release.")],
    dataset: Dataset,
    ledger: Where = None,
    ledger_key: KeyFile = None,
) -> None:
    """Give up a release that was begun. It stays charged: its noise may have been seen.

    Example:
        sfumato ledger abandon week-37 --dataset "metro subscribers"
    """
    from sfumato.errors import UsageError
    from sfumato.privacy.transaction import abandon as give_up

    found = open_ledger(ledger, ledger_key)
    release = found.book().named.get((dataset, name))
    if release is None:
        raise UsageError(f"{dataset!r} has no open release {name!r}.")
    give_up(found, release)  # again, where a kill came before its key was destroyed
    typer.echo(f"Abandoned: {name} of {dataset}. What was reserved for it stays charged.")
