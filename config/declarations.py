"""Load the declarations of topics (config/topics) and tables (config/tables), one YAML file each."""

from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from config.errors import LakehouseError
from config.settings import ROOT, nearest
from config.units import duration, retention

TOPICS = ROOT / "config" / "topics"
TABLES = ROOT / "config" / "tables"

LOG_RETENTION, FILE_RETENTION = timedelta(days=30), timedelta(days=7)
"""How long a table's log, and files that it no longer needs, are kept unless it declares otherwise."""

_WITH_STATISTICS = ("string", "int", "bigint", "double", "date", "timestamp")
_JSON_TO_SQL = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}


class Declaration(BaseModel):
    """Base class of a declaration in a YAML file: frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Lateness(Declaration):
    """How much later or earlier than its event time a record may arrive, and still be on time, or valid at all."""

    allowance: Annotated[timedelta | None, BeforeValidator(duration)]
    """Beyond this an event is late."""

    max_clock_ahead: Annotated[timedelta, BeforeValidator(duration)]
    """An event time further ahead of the arrival, or an arrival further ahead of the reader's clock, is invalid."""

    max_age: Annotated[timedelta | None, BeforeValidator(duration)] = timedelta(days=30)
    """Beyond this an event is invalid; it bounds the watermark delay of a replay, which sets nothing aside as late."""

    max_arrival_age: Annotated[timedelta | None, BeforeValidator(duration)] = timedelta(days=7)
    """Where producers set the arrival time: when landing reads a record, one older than this is invalid."""


class Topic(Declaration):
    """A Kafka topic: its key, partitions and retention, and the JSON schema of its events."""

    name: str
    description: str
    key: str | None
    partitions: int = Field(ge=1)
    retention: Annotated[dict[str, str], BeforeValidator(retention)]
    archived: bool
    arrival: Literal["broker", "producer"] = "broker"
    """Whose clock sets the arrival time of a record: the broker's, or that of each producer."""

    lateness: Lateness
    events: dict[str, Any] = Field(alias="schema")

    @property
    def types(self) -> list[str]:
        """List the event types that the topic may contain."""
        return list(self.events["properties"]["type"]["enum"])

    @property
    def payload_ddl(self) -> str:
        """Return the Spark schema of its events, as DDL."""
        return _ddl(self.events["properties"])


class Column(Declaration):
    """A column of a table; `from` is its path in the event: by default its own name, null if readers derive it."""

    type: str
    description: str
    source: str | None = Field(alias="from")
    personal: bool = False
    """Whether it may hold personal data: Delta then keeps no statistics of its values."""


class Table(Declaration):
    """A Delta table: its columns in order, its key and, if landing writes it, its topic."""

    name: str = Field(pattern=r"^(bronze|silver|gold|batch|ops)\.[a-z_]+$")
    description: str
    key: list[str]
    columns: dict[str, Column]
    topic: str | None = None
    versioned_by: str | None = None
    partitioned_by: list[str] = []
    day_of: str | None = None
    """The timestamp whose day is the partition. If the key has it, the rows of a key are in one partition."""

    lateness_of: str | None = None
    """The topic whose lateness applies to the rows: they arrive in the order of that topic's table."""

    final_at: str | None = None
    """SQL: the event time from which a row no longer changes. None: a row may always change."""

    changed_at: str | None = None
    """For a table whose rows are never final: the column with the event time of the last change."""

    log_retention: Annotated[timedelta, BeforeValidator(duration)] = LOG_RETENTION
    """How long the table's log is kept. A stream that was stopped for longer is reset: it computes its history."""

    file_retention: Annotated[timedelta, BeforeValidator(duration)] = FILE_RETENTION
    """How long files are kept that the table no longer needs, for readers of an earlier version."""

    @property
    def layer(self) -> str:
        """Return the layer: bronze, silver, gold, batch or ops."""
        return self.name.partition(".")[0]

    @property
    def stored(self) -> dict[str, Column]:
        """Return the columns that are stored. The end of a version is not: readers derive it."""
        return {name: column for name, column in self.columns.items() if column.source is not None}

    @property
    def ddl(self) -> str:
        """Return the stored columns as DDL."""
        return ", ".join(f"`{name}` {column.type}" for name, column in self.stored.items())

    @property
    def properties(self) -> dict[str, str]:
        """Return the Delta table properties: what is kept for how long, and statistics of no personal column.

        Statistics are copied into the log, which is not erased.
        """
        kept = {
            "delta.logRetentionDuration": f"interval {int(self.log_retention.total_seconds())} seconds",
            "delta.deletedFileRetentionDuration": f"interval {int(self.file_retention.total_seconds())} seconds",
            "delta.enableExpiredLogCleanup": "true",
        }
        if not any(column.personal for column in self.stored.values()):
            return kept
        counted = [
            name
            for name, column in self.stored.items()
            if not column.personal and column.type in _WITH_STATISTICS and name not in self.partitioned_by
        ]
        return kept | {"delta.dataSkippingStatsColumns": ",".join(counted)}

    @property
    def valid_to(self) -> str | None:
        """Return the SQL for the end of a version: the start of its key's next version; offsets break ties."""
        if self.versioned_by is None:
            return None
        return f"lead(valid_from) over (partition by {self.versioned_by} order by valid_from, partition, offset)"

    @property
    def disorder(self) -> timedelta | None:
        """Return how far a row's event time may lie behind that of an earlier row, if arrivals are in order."""
        lateness = topics()[str(self.topic or self.lateness_of)].lateness
        return None if lateness.allowance is None else lateness.allowance + lateness.max_clock_ahead

    @property
    def key_fixes_partition(self) -> bool:
        """Return whether a key is in one partition only; otherwise its rows can be on different days."""
        return not self.partitioned_by or self.day_of in self.key

    @property
    def has_generations(self) -> bool:
        """Return whether a replay builds the table again, each time as a table of its own."""
        return self.layer in ("silver", "gold")


D = TypeVar("D", bound=Declaration)


@cache
def topics(folder: Path = TOPICS) -> dict[str, Topic]:
    """Load every declared topic, by name."""
    return {file.stem: _validated(Topic, file, _yaml(file)) for file in sorted(folder.glob("*.yaml"))}


@cache
def tables(folder: Path = TABLES, topics_folder: Path = TOPICS) -> dict[str, Table]:
    """Load every declared table, by name; tables with a topic also get the columns of `_landed.yaml`."""
    landed = _yaml(folder / "_landed.yaml")["columns"] if (folder / "_landed.yaml").exists() else {}
    found = {}
    for file in sorted(folder.glob("[a-z]*.yaml")):
        declared = _yaml(file)
        if isinstance(declared.get("topic"), str) and isinstance(declared.get("columns"), dict):
            declared["columns"] |= landed
            declared.setdefault("partitioned_by", ["event_date"])
            declared.setdefault("day_of", "event_time")
        columns = declared.get("columns")
        for name, column in columns.items() if isinstance(columns, dict) else ():
            if isinstance(column, dict):
                column.setdefault("from", name)
        table = _validated(Table, file, declared)
        known = list(table.columns)
        _check_names(file, "key", table.key, known)
        _check_names(file, "partitioned_by", table.partitioned_by, known)
        _check_names(file, "day_of", [table.day_of] if table.day_of else [], known)
        _check_names(file, "changed_at", [table.changed_at] if table.changed_at else [], known)
        _check_names(file, "versioned_by", [table.versioned_by] if table.versioned_by else [], known)
        if table.topic:
            topic = topic_named(table.topic, topics_folder, file)
            paths = _paths(topic.events["properties"])
            reads = [column.source for name, column in table.columns.items() if name not in landed]
            _check_names(file, "columns", [path for path in reads if path], paths)
        found[table.name] = table
    return found


def topic_named(name: str, folder: Path = TOPICS, file: Path | None = None) -> Topic:
    """Return a topic by name; for an unknown name, suggest the nearest one."""
    found = topics(folder)
    if name not in found:
        where = f"{file}: topic: " if file else ""
        raise LakehouseError(f"{where}there is no topic '{name}': {nearest(name, list(found))}")
    return found[name]


def table_named(name: str) -> Table:
    """Return a table by name; for an unknown name, suggest the nearest one."""
    found = tables()
    if name not in found:
        raise LakehouseError(f"There is no table '{name}': {nearest(name, list(found))}")
    return found[name]


def landed_tables() -> list[Table]:
    """List the tables that landing writes from a topic."""
    return [table for table in tables().values() if table.topic]


def _ddl(properties: dict[str, Any]) -> str:
    return ", ".join(f"`{name}` {_sql_type(prop)}" for name, prop in properties.items())


def _sql_type(prop: dict[str, Any]) -> str:
    if prop.get("type") == "object":
        return "struct<" + ", ".join(f"`{k}`: {_sql_type(v)}" for k, v in prop["properties"].items()) + ">"
    if prop.get("type") == "array":
        return f"array<{_sql_type(prop['items'])}>"
    return "timestamp" if prop.get("format") == "date-time" else _JSON_TO_SQL[prop["type"]]


def _paths(properties: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, prop in properties.items():
        found.append(before + name)
        if prop.get("type") == "object":
            found += _paths(prop["properties"], f"{before}{name}.")
    return found


def _yaml(file: Path) -> dict[str, Any]:
    try:
        declared = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise LakehouseError(f"{file} is not YAML: {error}") from None
    if not isinstance(declared, dict):
        raise LakehouseError(f"{file} must contain keys and values.")
    return declared


def _validated(kind: type[D], file: Path, declared: dict[str, Any]) -> D:
    try:
        return kind.model_validate({"name": file.stem, **declared})
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            key = ".".join(str(part) for part in problem["loc"])
            if problem["type"] == "extra_forbidden":
                parents: dict[object, type[Declaration]] = {"lateness": Lateness, "columns": Column}
                parent = parents.get(problem["loc"][0], kind) if "." in key else kind
                allowed = [field.alias or name for name, field in parent.model_fields.items() if name != "name"]
                lines.append(f"{file}: unknown key '{key}': {nearest(str(problem['loc'][-1]), allowed)}")
            else:
                lines.append(f"{file}: {key}: {problem['msg']}")
        raise LakehouseError("\n".join(lines), f"Correct {file}.") from None


def _check_names(file: Path, key: str, names: Iterable[str], allowed: list[str]) -> None:
    for name in names:
        if name not in allowed:
            raise LakehouseError(f"{file}: {key}: there is no '{name}': {nearest(name, allowed)}", f"Correct {file}.")
