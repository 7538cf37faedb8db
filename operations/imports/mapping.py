"""Mapping: a YAML file, field of the topic -> where its value comes from: a column of the file, or a constant.

    event_time: {column: time, format: "yyyy-MM-dd HH:mm:ss", timezone: Europe/Berlin}
    type: {column: action, values: {view: page_view, cart: add_to_cart}}
    amount_cents: {column: price, scale: 100}
    dwell_ms: {constant: 0}
    user_id: visitor          # short for {column: visitor}

A field without an entry is left out. Three have a default: `event_id` is a hash of the other fields, `schema_version`
the latest one, `type` the only one that the topic has.
"""

from collections.abc import Mapping as Map
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from config.declarations import Topic, landed_tables, topic_named
from config.errors import LakehouseError
from config.settings import nearest

EPOCHS = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
"""Formats of a time that is a number, with the microseconds of its unit."""


class Source(BaseModel):
    """Where the value of a field comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str | None = None
    constant: str | int | bool | None = None
    values: Map[str, str | int] = {}
    """Value of the column -> value of the field; other values stay as they are."""

    format: str | None = None
    """Of a time: a pattern of Spark, epoch_s, epoch_ms or epoch_us; by default ISO 8601."""

    timezone: str = "UTC"
    scale: int | None = None
    """Factor of a number, for example 100 for cents."""

    @model_validator(mode="after")
    def _one_origin(self) -> "Source":
        if (self.column is None) == (self.constant is None):
            raise ValueError("it needs either a column or a constant")
        if self.timezone not in available_timezones():
            raise ValueError(f"there is no time zone '{self.timezone}'")
        return self


@dataclass(frozen=True)
class Mapping:
    """A topic, and the source of each of its mapped fields, by path: `user_id`, `after.tier`."""

    topic: Topic
    sources: Map[str, Source]

    @property
    def derives_id(self) -> bool:
        """Return whether event ids are derived from the other fields."""
        return "event_id" not in self.sources


def load_mapping(file: Path, topic: str) -> Mapping:
    """Read a mapping file; an error names the field and the nearest valid name."""
    declared = topic_named(topic)
    importable = [str(table.topic) for table in landed_tables()]
    if topic not in importable:
        raise LakehouseError(
            f"Nothing lands {topic}, so it cannot be imported into.", f"Choose one of: {', '.join(importable)}."
        )
    try:
        fields = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LakehouseError(f"{file} cannot be read: {error}", "Correct the mapping file or its path.") from None
    if not isinstance(fields, dict):
        raise LakehouseError(f"{file} must contain fields, each with its source.", f"Correct {file}.")
    known = _leaves(declared.events["properties"])
    sources = _defaults(declared) | {name: _source(file, str(name), each, known) for name, each in fields.items()}
    for name in declared.events["required"]:
        if name != "event_id" and not any(path.partition(".")[0] == name for path in sources):
            raise LakehouseError(
                f"{file}: '{name}' has no source, and every event of {topic} needs it.", f"Add {name}."
            )
    return Mapping(declared, {name: sources[name] for name in known if name in sources})


def property_of(topic: Topic, path: str) -> Map[str, Any]:
    """Return the JSON Schema of a field by its path."""
    return _leaves(topic.events["properties"])[path]


def _leaves(properties: Map[str, Any], before: str = "") -> dict[str, Map[str, Any]]:
    """Return the fields that have a value of their own, by path, in the order of the declaration."""
    found: dict[str, Map[str, Any]] = {}
    for name, prop in properties.items():
        if prop["type"] == "object":
            found |= _leaves(prop["properties"], f"{before}{name}.")
        else:
            found[before + name] = prop
    return found


def _defaults(topic: Topic) -> dict[str, Source]:
    defaults = {"schema_version": Source(constant=topic.events["properties"]["schema_version"]["enum"][-1])}
    if len(topic.types) == 1:
        defaults["type"] = Source(constant=topic.types[0])
    return defaults


def _source(file: Path, name: str, declared: Any, known: Map[str, Any]) -> Source:
    if name not in known:
        raise LakehouseError(f"{file}: there is no field '{name}': {nearest(name, list(known))}", f"Correct {file}.")
    try:
        return Source.model_validate({"column": declared} if isinstance(declared, str) else declared)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join([name, *map(str, problem["loc"])])
        raise LakehouseError(f"{file}: {key}: {problem['msg']}", f"Correct {file}.") from None
