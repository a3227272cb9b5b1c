"""`sfumato demo`: a synthetic city from records to a release, judged and ready to look at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Epsilon, Results
from sfumato.errors import UsageError

DATASET = "demo city"


def demo(
    out: Results = Path("sfumato-demo"),
    users: Annotated[int, typer.Option(help="People who live in the city.")] = 60_000,
    epsilon: Epsilon = 1.0,
    again: Annotated[
        bool, typer.Option("--again", help="Throw an earlier demo in this folder away first.")
    ] = False,
) -> None:
    """Make a city, publish its hourly density, compare it with the truth, say where to look.

    Example:
        sfumato demo --out demo
    """
    from sfumato.city import CityPlan, write_city
    from sfumato.cli.evaluate import show
    from sfumato.density import evaluate as holder
    from sfumato.density import publish as api
    from sfumato.privacy.ledger import Cap, Ledger
    from sfumato.published.statement import take_note

    if users < 1000:
        raise UsageError("A demo city has at least 1,000 people.")
    if again and (out / "city" / "city.json").is_file():
        shutil.rmtree(out)
    city = out / "city"
    typer.echo(f"1  a city of {users:,} people who do not exist")
    if not (city / "city.json").is_file():
        write_city(CityPlan(users=users, towers=130, zones=100, seed=7), city)
    typer.echo(f"2  a release of their week, epsilon {epsilon:g} (scheme bayes)")
    ledger = Ledger(out / "ledger.sqlite")
    delta = 0.1 / users
    ledger.initialise()
    if DATASET not in ledger.book().caps:
        ledger.add_dataset(DATASET, Cap(4 * epsilon, delta, None))
    made = api.release(
        city / "events.parquet",
        towers=city / "towers.csv",
        zones=city / "zones.geojson",
        start="2007-09-10",
        end="2007-09-17",
        slot="1h",
        tz="Europe/Paris",
        dataset=DATASET,
        epsilon=epsilon,
        delta=delta,
        expected_users=users,
        scheme="bayes",
        ledger=ledger,
        out=out / "release",
    )
    if note := take_note(made.manifest):
        typer.echo(note)
    typer.echo("3  how good it is (only the holder may know)")
    found = holder.evaluate(
        made.folder,
        city / "events.parquet",
        towers=city / "towers.csv",
        zones=city / "zones.geojson",
    )
    page, *_ = holder.write_comparison(found, out / "internal-release")
    show(found)
    typer.echo(f"Internal, with the truth beside it: {page}")
    typer.echo(f"Open {made.folder / 'index.html'} in a browser; it works offline.")
    typer.echo(f"Read {made.folder / 'README.txt'} for what is promised.")
