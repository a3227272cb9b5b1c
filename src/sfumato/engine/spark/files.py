"""Spark's files and frames as described `Events`: each file by its own schema, as on one machine.

Files that this machine sees are located as `sfumato.io.files` does; addresses (`s3a://…`,
`hdfs://…`) are listed by Spark. The rules are the same: an ending says the format, a header or a
footer the schema, a file that does not fit is refused where it was named and gives no rows where
it was found in a folder. Spark reads the footers of Parquet; files of one layout share one.

A row knows its file by a number, Spark's hash of the path, because a path with every row would
cost more than the row.

The schema of a file or of a DataFrame is translated into the type names by which
`sfumato.io.columns` judges columns. Only the schema is looked at: Spark may be lazy, and rows
decide nothing. `quoted` is how Spark SQL writes the name of a column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sfumato.engine.spark.session import OPENING, is_here, without_records
from sfumato.engine.spark.xxhash import of_text
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.columns import describe as reading_of
from sfumato.io.events import FORMATS, format_named, format_of, known_format, located
from sfumato.io.files import (
    CSV_ENDINGS,
    NDJSON_ENDINGS,
    Located,
    Unreadable,
    dialect_of,
    partition_keys,
)
from sfumato.io.formats import (
    Csv,
    FileSchema,
    Format,
    LineFormat,
    ReadOptions,
    TableFormat,
    csv_schema,
)
from sfumato.io.names import by_position
from sfumato.io.parquet import Parquet, parquet_layout
from sfumato.io.tables import Column, quoted, refuse_repeated
from sfumato.model.events import EventFile, Events, EventTable

_TYPES = {
    "int": "INTEGER",
    "binary": "BLOB",
    "void": "VARCHAR",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "decimal(20,0)": "UBIGINT",  # what Spark makes of unsigned 64-bit integers
}


def is_text(spark_type: str) -> bool:
    """Texts of any length and collation."""
    return spark_type.startswith(("string", "varchar", "char"))


def type_name(spark_type: str) -> str:
    """The name by which `sfumato.io` knows a Spark type."""
    return "VARCHAR" if is_text(spark_type) else _TYPES.get(spark_type, spark_type.upper())


def types_of(schema: Any) -> dict[str, str]:
    """Column to Spark type."""
    return {str(field.name): field.dataType.simpleString() for field in schema.fields}


def columns_of(schema: Any, label: str) -> tuple[Column, ...]:
    """The columns of a Spark schema; refused where two cannot be told apart."""
    names = [str(field.name) for field in schema.fields]
    if not names:
        raise InputError("there are no columns.", file=label)
    refuse_repeated(names, label)
    return tuple(Column(name, type_name(kind)) for name, kind in types_of(schema).items())


def describe(frame: Any, options: ReadOptions, label: str = "Spark DataFrame") -> Events:
    """Describe a Spark DataFrame by its schema and the options."""
    with without_records(label):
        schema = frame.schema
    columns = columns_of(schema, label)
    reading, notes = reading_of(
        columns, options.columns, label, tz=options.tz, unit=options.time_unit
    )
    return Events((EventTable(frame, reading, label),), notes, label=label)


def collected(frame: Any, options: ReadOptions) -> Events:
    """The frame's columns that play a part, brought here as an Arrow table."""
    described = describe(frame, options)
    (part,) = described.parts
    with without_records(part.label):
        used = [quoted(name, "`") for name in part.reading.columns.used]
        table = frame.select(*used).toArrow()
    return replace(described, parts=(EventTable(table, part.reading, part.label),))


LONGEST_SEEN = 1 << 26
"""Bytes above which Hadoop's reader skips a record by itself, in constant memory."""
_READ = (Parquet, LineFormat)
NUMBER = "xxhash64(_metadata.file_path)"
"""A file's number, in SQL."""
_GLOB = re.compile(r"[][{}*?\\]")
_HERE = re.compile(r"file:(//)?(?=/)")
_ON_DISK = "file://"
_PLAIN = re.compile(r"(/(?!\.\.?/)[\w.-]+)*/[a-zA-Z0-9]([\w.-]*[a-zA-Z0-9])?", re.ASCII)
"""A path that Spark lists and writes as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """How Spark gets at files: session, address, number and typed schema of each, by its label."""

    session: Any = None
    addresses: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)

    def typed(self, parts: Sequence[EventFile]) -> Any:
        """The frame of Parquet files of one schema. Old calendars are not refused, row by row."""
        reader = self.session.read.schema(self.schemas[parts[0].label])
        reader = reader.option("datetimeRebaseMode", "CORRECTED")
        reader = reader.option("int96RebaseMode", "CORRECTED")
        return self._load(reader.format("parquet"), parts)

    def lines(self, parts: Sequence[EventFile]) -> Any:
        """The frame of lines of text files, their bytes as they are."""
        return self._load(_text(self.session), parts)

    def seen_here(self, events: Events) -> bool:
        """Whether all of it are files that this machine sees too."""
        return all(
            isinstance(part, EventFile)
            and self.addresses.get(part.label, "").startswith(_ON_DISK)
            and part.path.is_file()
            for part in events.parts
        )

    def small_here(self, events: Events) -> bool:
        """Whether all of it are plain text files that cost more to open than to read, and workers
        are threads of this machine: here, a file is opened in a fraction of the time."""
        return (
            self.seen_here(events)
            and is_here(self.session.conf.get("spark.master", ""))
            and all(
                isinstance(part, EventFile)
                and part.format != Parquet.name
                and part.path.suffix in (*CSV_ENDINGS, *NDJSON_ENDINGS)
                and part.path.stat().st_size <= OPENING
                for part in events.parts
            )
        )

    def _load(self, reader: Any, parts: Sequence[EventFile]) -> Any:
        paths = [self.addresses[part.label] for part in parts]
        # Half of a damaged file is not read, whatever the session is set to; and folders' names
        # are read by our own rules.
        reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
        return reader.option("recursiveFileLookup", "true").load(paths)


def _text(session: Any) -> Any:
    reader = session.read.format("text").option("lineSep", "\n")
    return reader.option("mapreduce.input.linerecordreader.line.maxlength", str(LONGEST_SEEN))


def read_files(
    session: Any,
    texts: Sequence[str],
    options: ReadOptions,
    format: str | None = None,
) -> tuple[Events, Store]:
    """Describe the files that paths, folders, patterns and addresses mean."""
    said = None if format is None else format_named(format)
    if said is not None and not isinstance(said, _READ):
        raise UsageError(f"Spark does not read {said.name}.", remedy="Leave `engine` out.")
    store, layouts = Store(session), _Layouts(session)
    here = [path for text in texts if (path := _local(text)) is not None]
    files = list(located(here, said)) if here else []
    for file in files:
        store.addresses[str(file.path)] = address_of(file.path)
    near = frozenset(store.addresses)
    for text in texts:
        if _local(text) is None:
            files += _listed(session, text, store)
    parts: list[Any] = []
    unfit: list[tuple[str, str]] = []
    notes: tuple[str, ...] = ()
    for file in files:
        label = str(file.path)
        try:
            _check_name(label)
            names = options.columns.values()
            kind = said or (format_of(file, names) if label in near else _by_name(file, names))
            if isinstance(kind, TableFormat):
                schema = layouts.schema(file, kind, store, names, label in near)
                if schema is None:
                    continue
                described = kind.described(file, schema, options)
            elif isinstance(kind, LineFormat):
                described = kind.read(file, options)  # by its name alone: no file is opened
            else:
                raise InputError(
                    f"Spark does not read {kind.name}.", file=label, remedy="Leave `engine` out."
                )
        except Unreadable:
            raise
        except SfumatoError as error:
            if file.named:
                raise
            unfit.append((label, error.problem))
            continue
        if kind.name == Parquet.name:
            store.schemas[label] = layouts.spark[label]
        parts += described.parts
        notes = tuple(dict.fromkeys((*notes, *described.notes)))
    _number(store, [part for part in parts if part.label in near])
    return Events(tuple(parts), notes, unfit=tuple(unfit)), store


def stored(session: Any, events: Events) -> Store:
    """How Spark gets at files that were described on this machine; each is read as described."""
    store, layouts = Store(session), _Layouts(session)
    for part in events.parts:
        if not isinstance(part, EventFile) or not isinstance(FORMATS[part.format], _READ):
            raise UsageError("Spark does not read these events.", remedy="Leave `engine` out.")
        store.addresses[part.label] = address_of(part.path)
        if part.format == Parquet.name:
            layouts.schema(Located(part.path, part.named), Parquet(), store, (), near=True)
            store.schemas[part.label] = layouts.spark[part.label]
    _number(store, [part for part in events.parts if isinstance(part, EventFile)])
    return store


def _check_name(label: str) -> None:
    """A path that is no text cannot be sent to Spark; one file's must not stop the others'."""
    try:
        label.encode()
    except UnicodeEncodeError:
        raise InputError(
            "Spark cannot open a path that is not UTF-8.",
            file=ascii(label),
            remedy="Rename it.",
        ) from None


def _by_name(file: Located, chosen: Collection[str]) -> Format:
    """What a distant file is: Parquet unless its name says otherwise, as Hive writes it; a table
    of text where columns are chosen by their numbers."""
    return known_format(file, chosen) or FORMATS[Csv.name if by_position(chosen) else Parquet.name]


class _Layouts:
    """Schemas of files; Parquet's are asked of Spark once for every layout."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._known: dict[str, Any] = {}
        self.spark: dict[str, Any] = {}

    def schema(
        self, file: Located, kind: TableFormat, store: Store, chosen: Collection[str], near: bool
    ) -> FileSchema | None:
        label = str(file.path)
        address = store.addresses[label]
        if kind.name == Parquet.name:
            layout = parquet_layout(file.path) if near else address
            if layout not in self._known:
                with without_records(label):
                    self._known[layout] = self._session.read.parquet(address).schema
            self.spark[label] = self._known[layout]
            return FileSchema(columns_of(self.spark[label], label))
        if near or not isinstance(kind, Csv) or by_position(chosen):
            return kind.schema(file.path, chosen)
        with without_records(label):
            first = _text(self._session).load(address).limit(1)
            lines = first.selectExpr("CAST(value AS BINARY) AS line").toArrow().column(0)
        dialect = dialect_of(
            lines[0].as_py() if len(lines) else b"", file.path, chosen, kind.delimiter
        )
        return None if dialect is None else csv_schema(dialect)


def _local(text: str) -> str | None:
    """The path where it is one of this machine's: a cluster's own may be elsewhere."""
    path = _HERE.sub("", text)
    if "://" in path:
        return None
    if Path(path).exists():
        return path
    pattern = _GLOB.search(path)
    if pattern is None:
        return None
    return path if Path(path[: pattern.start()] + "x").parent.is_dir() else None


def address_of(path: Path) -> str:
    """A local file by its full address: the cluster's default may be another file system."""
    return _escaped(_ON_DISK + str(path.absolute()))


def _escaped(path: str) -> str:
    """A path in which no character is a pattern's."""
    return _GLOB.sub(lambda match: "\\" + match.group(), path)


def _plainly(address: str) -> tuple[str, str]:
    """An address of Spark's without its escapes, and the path in it."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc}{path}", path


def _numbered(session: Any, paths: Sequence[str], label: str) -> list[tuple[str, int]]:
    """All files below these paths with their numbers, as Spark lists them; none is opened."""
    with without_records(label):
        reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
        pairs = reader.load(list(paths)).selectExpr("_metadata.file_path AS path", f"{NUMBER} AS n")
        rows = pairs.toArrow().to_pydict()
    return sorted(zip(rows["path"], rows["n"], strict=True))


def _check_numbers(store: Store) -> None:
    if len(set(store.numbers.values())) < len(store.numbers):
        raise UsageError("Two files have one number.", remedy="Rename one of them.")


def _listed(session: Any, text: str, store: Store) -> list[Located]:
    """The files that an address means, by Spark's listing."""
    pairs = _numbered(session, [text], shown(text))
    pattern = _GLOB.search(text)
    root = Path(urlsplit(text[: pattern.start()] + "x").path).parent if pattern else None
    given = urlsplit(text).path.rstrip("/")
    files = []
    for address, number in pairs:
        plain, path = _plainly(address)
        label = Path(shown(plain))
        named = pattern is None and path == given
        below = root or (Path(path).parent if named else Path(given))
        store.addresses[str(label)] = _escaped(plain)
        store.numbers[str(label)] = number
        files.append(Located(label, named, partition_keys(Path(path), below)))
    _check_numbers(store)
    return files


def _number(store: Store, parts: Sequence[EventFile]) -> None:
    """The numbers of this machine's files, where rows must say which is theirs.

    Spark opens a file in a millisecond, also to say its number alone: it says that of one whose
    path it writes as it is, and where we say the same, those of all such paths are worked out.
    """
    numbered = {part.label: part for part in parts if part.keys or part.format != Parquet.name}
    paths = {label: str(part.path.absolute()) for label, part in numbered.items()}
    plain = [label for label, path in paths.items() if _PLAIN.fullmatch(path)]
    ours = {label: of_text(f"file:{paths[label]}") for label in plain}
    asked = [label for label in paths if label not in ours] + plain[:1]
    theirs = _asked(store, paths, asked)
    if any(theirs[label] != ours[label] for label in plain[:1]):
        theirs |= _asked(store, paths, plain)
    store.numbers.update(ours | theirs)
    _check_numbers(store)


def _asked(store: Store, paths: Mapping[str, str], labels: Sequence[str]) -> dict[str, int]:
    """The numbers that Spark gives these files."""
    if not labels:
        return {}
    pairs = _numbered(store.session, [store.addresses[label] for label in labels], labels[0])
    by_path = {_plainly(address)[1]: number for address, number in pairs}
    for label in labels:
        if paths[label] not in by_path:
            raise InputError(
                "Spark does not list the file.",
                file=label,
                remedy="Names that begin with a dot or an underscore are not data to Spark.",
            )
    return {label: by_path[paths[label]] for label in labels}


def shown(text: str) -> str:
    """A path or a table's name as it is, an address without user, password and options."""
    if ":/" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return "the address given"
    if parts.netloc:
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    # jdbc:… and the like: nobody knows where the secret stands.
    plain = parts.path.startswith("/") and "@" not in parts.path
    return f"{parts.scheme}:{parts.path if plain else '…'}"


def texts_of(events: object) -> list[str]:
    """The paths, names or addresses that were given."""
    given = list(events) if isinstance(events, list | tuple) else [events]
    if not given or not all(isinstance(one, str | os.PathLike) for one in given):
        raise UsageError(
            f"Spark cannot read events from a {type(events).__name__}.",
            remedy="Give a Spark DataFrame, a path, or the name of a table.",
        )
    return [str(os.fspath(one)) for one in given]  # type: ignore[arg-type]


LITTLE = 1 << 22
"""Bytes of files up to which a quick start pays, measured (docs/benchmarks/spark_start.md): it
still does at 0.6 million records, 5 MB, and no more at 1.9 million."""


def is_little(events: object) -> bool:
    """Whether these are files of this machine, and small. No answer depends on it."""
    given = list(events) if isinstance(events, list | tuple) else [events]
    size = 0
    try:
        for one in given:
            if not isinstance(one, str | os.PathLike) or not Path(one).exists():
                return False
            path = Path(one)
            for file in path.rglob("*") if path.is_dir() else (path,):
                size += file.stat().st_size if file.is_file() else 0
                if size > LITTLE:
                    return False
    except (OSError, ValueError):  # said by whoever reads them
        return False
    return True
