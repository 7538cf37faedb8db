"""Troubles: why a query stopped -> what it means, and the command that mends it."""

import re

from pyspark.errors import StreamingQueryException

from config.errors import LakehouseError


def explain_failure(job: str, error: StreamingQueryException) -> LakehouseError:
    """Say why a query failed."""
    text = str(error)
    if "OffsetOutOfRange" in text or "data may have been lost" in text.lower() or "DATA_LOSS" in text:
        return LakehouseError(
            f"'{job}' stopped: Kafka no longer holds records that were not landed yet.\n{_first_lines(text)}",
            "Check the topics' retention in config/topics; nothing was skipped.",
        )
    if "org.apache.kafka.common.errors.TimeoutException" in text:
        return LakehouseError(
            f"'{job}' stopped: Kafka did not answer in time.\n{_first_lines(text, 1)}",
            f"Nothing is lost. `lakehouse broker status` tells whether the local one runs; once Kafka answers, "
            f"`lakehouse stream run {job}` goes on where it stopped.",
        )
    if "STATE_STORE" in text and "SCHEMA" in text:
        return LakehouseError(
            f"'{job}' stopped: what it keeps has another form than its configuration asks for, as after a change of "
            "streaming.salted.",
            f"Change it back; or make its table again: lakehouse stream reset {job}",
        )
    return LakehouseError(
        f"'{job}' stopped: {_first_lines(text)}",
        f"Nothing is lost: `lakehouse stream run {job}` goes on where it stopped. More in logs/spark.log of the home.",
    )


def dropped_rows_error(job: str, rows: int) -> LakehouseError:
    """Say that Spark has dropped rows."""
    return LakehouseError(
        f"'{job}' stopped: Spark dropped {rows:,} rows that came after their window had closed. "
        "Partitions were read further apart than streaming.skew_minutes allows.",
        f"Raise streaming.skew_minutes, then make the table again: lakehouse stream reset {job}",
    )


def _first_lines(text: str, count: int = 6) -> str:
    """Give the beginning of an error; of one raised in Python, what it says, which stands at the traceback's end."""
    raised = re.findall(
        r"^\w[\w.]*(?:Error|Exception)\b.*$", text.partition("Traceback (most recent call last)")[2], re.M
    )
    if raised:
        return str(raised[-1])
    return "\n".join(line for line in text.splitlines()[:count] if line.strip())
