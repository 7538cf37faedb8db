"""Convert: files -> the records to send, as a Spark DataFrame: arrival time, key and value, in event-time order.

A value that cannot be converted stays as the text that it is, so that landing refuses it by the rule that it breaks.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from config.errors import LakehouseError
from config.settings import nearest
from operations.imports.mapping import EPOCHS, Mapping, Source, property_of

_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_TIMES = (TimestampType, TimestampNTZType, DateType)
_COMPRESSED = (".gz", ".bz2")


def records(spark: SparkSession, files: Sequence[Path], mapping: Mapping) -> DataFrame:
    """Return the records of all files: arrival_ms (null if the event time cannot be read), key, value."""
    converted = [_converted(_read(spark, file), mapping, file) for file in files]
    together = converted[0]
    for frame in converted[1:]:
        together = together.unionAll(frame)
    # The value begins with the event id: the order is the same in every run, which a resumed import relies on.
    return together.orderBy(F.col("arrival_ms").asc_nulls_first(), "value")


def _read(spark: SparkSession, file: Path) -> DataFrame:
    suffixes = [suffix for suffix in file.suffixes if suffix not in _COMPRESSED]
    try:
        match suffixes[-1] if suffixes else "":
            case ".csv":
                return spark.read.csv(str(file), header=True, escape='"', multiLine=True, enforceSchema=False)
            case ".parquet":
                return spark.read.parquet(str(file))
            case ".json" | ".jsonl" | ".ndjson":
                return spark.read.json(str(file), primitivesAsString=True)
    except AnalysisException as error:
        raise LakehouseError(f"{file} cannot be read: {str(error).splitlines()[0]}", "Correct the file.") from None
    raise LakehouseError(
        f"{file}: its format is unknown.", "Name it .csv, .parquet or .jsonl (also .csv.gz and .jsonl.gz)."
    )


def _converted(frame: DataFrame, mapping: Mapping, file: Path) -> DataFrame:
    fields = {name: _Field(frame, mapping, name, source, file) for name, source in mapping.sources.items()}
    body = F.concat_ws(",", *_members(fields))
    if mapping.derives_id:
        # Rows that are equal in all fields are the same event: landing keeps the first.
        event_id = F.left(F.sha2(F.concat(F.lit(f"{mapping.topic.name}\n"), body), 256), F.lit(32))
        body = F.concat(F.lit('"event_id":"'), event_id, F.lit('",'), body)
    key = fields[mapping.topic.key].text if mapping.topic.key else F.lit(None).cast("string")
    return frame.select(
        F.unix_millis(fields["event_time"].time).alias("arrival_ms"),
        key.alias("key"),
        F.concat(F.lit("{"), body, F.lit("}")).alias("value"),
    )


def _members(fields: dict[str, "_Field"]) -> list[Column]:
    """Return the members of the JSON object; fields of one nested object are together, a missing value has none."""
    members: dict[str, list[Column]] = {}
    for path, field in fields.items():
        outer, _, name = path.rpartition(".")
        members.setdefault(outer or path, []).append(F.concat(F.lit(f'"{name}":'), field.json))
    found = []
    for outer, parts in members.items():
        if outer in fields:
            found += parts
        else:
            inner = F.concat_ws(",", *parts)
            found.append(F.when(inner != "", F.concat(F.lit(f'"{outer}":{{'), inner, F.lit("}"))))
    return found


class _Field:
    """The value of one field in three forms: text as in the file, a time, and JSON."""

    def __init__(self, frame: DataFrame, mapping: Mapping, path: str, source: Source, file: Path) -> None:
        self._source, self._property = source, property_of(mapping.topic, path)
        column = F.lit(source.constant) if source.column is None else _column(frame, source.column, path, file)
        self._is_time = isinstance(frame.select(column).schema[0].dataType, _TIMES)
        self._column, self.text = column, _replaced(column.cast("string"), source)

    @property
    def time(self) -> Column:
        """Return the value as a time; null if it is none."""
        source = self._source
        if self._is_time:
            time = self._column.cast("timestamp")
        elif source.format in EPOCHS:
            micros = F.try_multiply(self.text.try_cast("decimal(38,6)"), F.lit(EPOCHS[source.format]))
            time = F.timestamp_micros(micros.try_cast("bigint"))
        else:
            time = (
                F.try_to_timestamp(self.text, F.lit(source.format)) if source.format else F.try_to_timestamp(self.text)
            )
        return (
            time if source.timezone == "UTC" or source.format in EPOCHS else F.to_utc_timestamp(time, source.timezone)
        )

    @property
    def json(self) -> Column:
        """Return the value in JSON: of its declared type, or the text as it is."""
        declared = self._property
        if declared.get("format") == "date-time":
            return _quoted(F.coalesce(F.date_format(self.time, _ISO), self.text))
        if declared["type"] in ("integer", "number"):
            number = F.try_multiply(self.text.try_cast("decimal(38,9)"), F.lit(self._source.scale or 1))
            whole = F.when(number == F.round(number), number.try_cast("bigint").cast("string"))
            known = whole if declared["type"] == "integer" else number.cast("double").cast("string")
            return F.coalesce(known, _quoted(self.text))
        if declared["type"] == "boolean":
            return F.coalesce(self.text.try_cast("boolean").cast("string"), _quoted(self.text))
        return _quoted(self.text)


def _column(frame: DataFrame, name: str, path: str, file: Path) -> Column:
    """Return a column by its name or, of nested JSON, by its path."""
    column = F.col(f"`{name}`" if name in frame.columns else ".".join(f"`{part}`" for part in name.split(".")))
    try:
        frame.select(column)
    except AnalysisException:
        raise LakehouseError(
            f"{file} has no column '{name}', which the mapping names for {path}: {nearest(name, frame.columns)}",
            "Correct the mapping.",
        ) from None
    return column


def _replaced(text: Column, source: Source) -> Column:
    if not source.values:
        return text
    pairs: list[Any] = [F.lit(str(each)) for pair in source.values.items() for each in pair]
    return F.coalesce(F.try_element_at(F.create_map(*pairs), text), text)


def _quoted(text: Column) -> Column:
    """Write a text as a JSON string. Spark writes lists, not texts: the brackets are cut off."""
    listed = F.to_json(F.array(text))
    return F.when(text.isNotNull(), F.substring(listed, F.lit(2), F.length(listed) - 2))
