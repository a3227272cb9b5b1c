"""The table of options: each one that several commands have is declared here, once.

A command says `zone_id: ZoneId = None`; flag, help text and panel come from the table, so an
option reads and behaves alike wherever it appears. A value above the tables of a configuration
file goes to options of the table alone (`sfumato.cli.config`), since a few commands have a word
of their own that is spelled alike: the `--towers` of a synthetic city is a number.

Below the table: how values that hold a `name=value` are read, and where a ledger is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Ledger

DATA, PLACES, PRIVACY, OUTPUT = "data", "places", "privacy", "output"
QUESTION = "question"
PANELS = ("required", DATA, PLACES, QUESTION, PRIVACY, OUTPUT, "more")
"""Groups of options in a command's help, in this order. What must be given is in the first."""

TABLE: dict[str, set[str]] = {}
"""Flag to the help texts under which it is shared."""


def shared(panel: str, flag: str, help: str, *more: str) -> Any:
    """An option of the table; commands that need other words for it call this themselves.

    Args:
        panel: The group of options that it stands in.
        flag: Its long form.
        help: What it is, in a line.
        more: Its other forms.
    """
    TABLE.setdefault(flag, set()).add(help)
    return typer.Option(flag, *more, help=help, rich_help_panel=panel)


def own(panel: str, flag: str, help: str) -> Any:
    """An option of one command alone, whose word means something else in others: a value above
    the tables of a configuration file does not go to it."""
    return typer.Option(flag, help=help, rich_help_panel=panel)


# How events are read.
Columns = Annotated[
    list[str] | None,
    shared(
        DATA,
        "--column",
        "Which column is what: user=imsi, time=ts, towers.id=cell; a number where a file has no "
        "header: user=1.",
    ),
]
Format = Annotated[
    str | None,
    shared(
        DATA,
        "--format",
        "Where names do not tell: csv, tsv, ssv (semicolons), psv (bars), parquet, ndjson, gpx, "
        "tdrive, geolife or cabspotting.",
    ),
]
TimeUnit = Annotated[
    str | None, shared(DATA, "--time-unit", "Unit of epoch numbers: s, ms, us or ns.")
]
EventsTz = Annotated[
    str | None,
    shared(
        DATA, "--events-tz", "Clock of event times that carry no offset; default: that of --tz."
    ),
]
EventsOption = Annotated[str, shared(DATA, "--events", "The events that they were made from.")]
Engine = Annotated[
    str | None, shared(DATA, "--engine", "Where to count: local (default) or spark.")
]
Master = Annotated[
    str | None,
    shared(DATA, "--master", "Spark's master: local[2], yarn, spark://HOST:PORT, sc://HOST:PORT."),
]
SparkConf = Annotated[
    list[str] | None,
    shared(DATA, "--spark-conf", "A setting of Spark: spark.executor.memory=8g."),
]
Pipeline = Annotated[
    str | None,
    shared(DATA, "--pipeline", "EVENTS is the lakehouse of multimno, or the FlowDB of flowkit."),
]
ZoningOf = Annotated[
    str | None,
    shared(PLACES, "--zoning", "Zones of the pipeline: nuts:3, INSPIRE_1km, admin3."),
]

# The period: a public choice, never read from the data.
_START = shared(DATA, "--from", "First day, such as 2007-09-10.")
_END = shared(DATA, "--to", "First day that is no longer part of it.")
_TZ = shared(DATA, "--tz", "Time zone of days and slots, such as Europe/Paris.")
Start = Annotated[str, _START]
End = Annotated[str, _END]
MaybeStart = Annotated[str | None, _START]
MaybeEnd = Annotated[str | None, _END]
Slot = Annotated[str, shared(DATA, "--slot", "Length of a time slot: 15min, 1h, 1d.")]
Fold = Annotated[
    str | None,
    shared(DATA, "--fold", "Fold the period to a typical week or day, for sparse data."),
]
Tz = Annotated[str, _TZ]
MaybeTz = Annotated[str | None, _TZ]
ReadTz = Annotated[str | None, shared(DATA, "--tz", "Time zone of times that carry none.")]

# Where the events are: one of towers, zones, towers with zones, or a grid.
Towers = Annotated[
    Path | None, shared(PLACES, "--towers", "Towers that the events name: CSV or Parquet.")
]
Zones = Annotated[
    Path | None,
    shared(PLACES, "--zones", "Zones: GeoJSON, GeoPackage, GeoParquet or Shapefile."),
]
Grid = Annotated[
    str | None,
    shared(PLACES, "--grid", "Cells instead of zones: 500m, 1km@EPSG:3035, h3:8 or geohash:6."),
]
Region = Annotated[
    str | None,
    shared(PLACES, "--region", "What the grid covers: a file, or west,south,east,north."),
]
ZoneId = Annotated[str | None, shared(PLACES, "--zone-id", "Column of the zones' ids.")]
ZoneName = Annotated[str | None, shared(PLACES, "--zone-name", "Column of the zones' names.")]
Layer = Annotated[str | None, shared(PLACES, "--layer", "Layer of the zones' file.")]
RepairZones = Annotated[
    bool, shared(PLACES, "--repair-zones", "Make crossing outlines of zones valid.")
]
DropBadTowers = Annotated[
    bool, shared(PLACES, "--drop-bad-towers", "Leave towers without a usable position out.")
]

AtBorder = Annotated[
    str | None,
    shared(
        PLACES,
        "--border",
        "How far towers' cells reach beyond the zones: 0, 500m or reach; default: by the list.",
    ),
]

# What is protected, how well, and where that is written down.
_DATASET = shared(PRIVACY, "--dataset", "Whose people these are, as the ledger knows them.")
_EPSILON = shared(PRIVACY, "--epsilon", "Privacy loss of the unit in one release.")
_DELTA = shared(PRIVACY, "--delta", "Well below one over the number of people.")
_USERS = shared(PRIVACY, "--expected-users", "How many people, from public knowledge, rounded.")
_BOUND = shared(PRIVACY, "--bound", "What one person may contribute: weight:3 or sample:30.")
Dataset = Annotated[str, _DATASET]
MaybeDataset = Annotated[str | None, _DATASET]
Epsilon = Annotated[float, _EPSILON]
MaybeEpsilon = Annotated[float | None, _EPSILON]
Epsilons = Annotated[
    list[float] | None,
    shared(PRIVACY, "--epsilon", "Epsilons to try, one after the other; default: several."),
]
Delta = Annotated[float, _DELTA]
MaybeDelta = Annotated[float | None, _DELTA]
UnitName = Annotated[
    str,
    shared(
        PRIVACY,
        "--unit",
        "Whose contribution is hidden: user-period, user-day, w-event:48h, trajectory, event or "
        "point:200m.",
    ),
]
BoundText = Annotated[str | None, _BOUND]
Counted = Annotated[
    str, shared(PRIVACY, "--count", "What is counted: visits (place and slot) or people.")
]
ExpectedUsers = Annotated[int, _USERS]
MaybeExpectedUsers = Annotated[int | None, _USERS]
SchemeName = Annotated[str, shared(PRIVACY, "--scheme", "How the numbers are made.")]
Parameters = Annotated[
    list[str] | None,
    shared(PRIVACY, "--parameter", "A setting of the scheme's own, such as tolerance=0.01."),
]
CapEpsilon = Annotated[
    float | None, shared(PRIVACY, "--cap-epsilon", "Most epsilon of all releases together.")
]
_ANALYST = shared(PRIVACY, "--analyst", "Who asks: whose allowance pays.")
Analyst = Annotated[str, _ANALYST]
MaybeAnalyst = Annotated[str | None, _ANALYST]
Where = Annotated[
    str | None,
    shared(
        PRIVACY, "--ledger", "File or postgresql:// address; default: a file in your data folder."
    ),
]
KeyFile = Annotated[
    Path | None,
    shared(PRIVACY, "--ledger-key", "File of the ledger's key; default: beside the ledger."),
]

QuestionTexts = Annotated[
    list[str],
    shared(QUESTION, "--question", "JSON, or a file of one or several; may be repeated."),
]

Earlier = Annotated[
    list[Path] | None,
    shared(DATA, "--earlier", "Folder of a release of another week, to be read together; free."),
]

# What is written and said.
ReleaseName = Annotated[
    str | None, shared(OUTPUT, "--name", "Name in the ledger; default: that of the folder.")
]
CsvForm = Annotated[
    str,
    shared(
        OUTPUT,
        "--csv",
        "The table as text: yes, gz (compressed), no; auto compresses what no spreadsheet opens.",
    ),
]
Title = Annotated[str | None, shared(OUTPUT, "--title", "What readers call it; default: its name.")]
Publisher = Annotated[str | None, shared(OUTPUT, "--publisher", "Who publishes it.")]
LicenceName = Annotated[
    str | None,
    shared(OUTPUT, "--licence", "SPDX identifier such as CC-BY-4.0, or an https:// address."),
]
Contact = Annotated[
    str | None, shared(OUTPUT, "--contact", "Mail or web address for questions about it.")
]
DryRun = Annotated[
    bool, shared(OUTPUT, "--dry-run", "Say what it would cost; read and spend nothing.")
]
Quiet = Annotated[bool, shared(OUTPUT, "--quiet", "Say nothing but errors.", "-q")]
AsJson = Annotated[bool, shared(OUTPUT, "--json", "Print JSON instead of words.")]
NewFolder = Annotated[Path, shared(OUTPUT, "--out", "Folder to make; it must not exist yet.")]
Results = Annotated[Path, shared(OUTPUT, "--out", "Folder for what is made; made if need be.")]
InternalFolder = Annotated[
    Path | None,
    shared(OUTPUT, "--out", "Folder for internal results; default: beside the first release."),
]
Seed = Annotated[int, shared("more", "--seed", "The same seed gives the same result.")]


def pairs(given: list[str] | None, what: str, example: str) -> dict[str, str]:
    """`name=value` options as a mapping."""
    cut = [text.partition("=") for text in given or []]
    if any(not (name and sign and value) for name, sign, value in cut):
        raise UsageError(f"{what} is written as {example}.")
    return {name: value for name, _, value in cut}


def columns_of(given: list[str] | None) -> dict[str, str]:
    """Role to column name."""
    return pairs(given, "A column, role=name,", "--column user=imsi")


def spark_settings(given: list[str] | None) -> dict[str, str]:
    """Name of a setting to its value."""
    return pairs(given, "A setting of Spark", "--spark-conf spark.executor.memory=8g")


def parameters_of(given: list[str] | None) -> dict[str, bool | int | float | str]:
    """Name to value: true and false, whole numbers, numbers, words."""
    found = pairs(given, "A parameter", "--parameter tolerance=0.01")
    return {name: _typed_value(value) for name, value in found.items()}


def _typed_value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def open_ledger(where: str | None, key: Path | None) -> Ledger:
    """The ledger that the options name."""
    from sfumato.privacy.ledger import Ledger

    return Ledger(where, key)


def demand_of(given: list[str] | None) -> dict[str, float] | None:
    """Hours to how much they matter."""
    try:
        found = pairs(given, "A demand", "--demand 7-10=2")
        return {hours: float(weight) for hours, weight in found.items()} or None
    except ValueError:
        raise UsageError("A demand is written as --demand 7-10=2.") from None


def words_of(flag: str) -> Callable[[list[str] | None], dict[str, str | list[str]] | None]:
    """Reader of the words of a second selection; several zones stand between commas."""

    def read(given: list[str] | None) -> dict[str, str | list[str]] | None:
        found = pairs(given, "A second selection", f"{flag} weekdays=sat-sun")
        return {
            name: [zone.strip() for zone in value.split(",")]
            if name == "zones" and value != "all"
            else value
            for name, value in found.items()
        } or None

    return read


T = TypeVar("T")
_READ: Mapping[str, Callable[[Any], Any]] = {
    "column": columns_of,
    "parameter": parameters_of,
    "spark_conf": spark_settings,
    "demand": demand_of,
    "against": words_of("--against"),
    "share_of": words_of("--share-of"),
}
"""Options that hold `name=value` and mean a mapping in Python."""


def called(verb: Callable[..., T], options: Mapping[str, Any], **further: Any) -> T:
    """Call a verb with the command's options of the same names: the words are the same in both.

    Args:
        verb: The function; what it has no parameter for is left out.
        options: The command's options, by name (`dict(locals())` at its beginning). One that was
            not given leaves the verb's own default.
        further: Values that the command line has in another form, or not at all.
    """
    words = {name: _READ.get(name, lambda value: value)(value) for name, value in options.items()}
    if "ledger_key" in words:
        words["ledger"] = open_ledger(words["ledger"], words["ledger_key"])
    words |= further
    given = {}
    for name, parameter in signature(verb).parameters.items():
        if name in words and (words[name] is not None or parameter.default is Parameter.empty):
            given[name] = words[name]
    return verb(**given)
