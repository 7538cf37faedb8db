"""Query errors: the exception of a failed streaming query -> what went wrong, and the command that fixes it."""

import re
from collections.abc import Callable

from pyspark.errors import PySparkException

from config.errors import LakehouseError
from streaming.topic_identity import RESTORE

NOT_A_RECORD = (
    *(
        "org.apache.kafka.",
        "Cannot fetch record for offset",
        "OffsetOutOfRange",
        "data may have been lost",
        "DATA_LOSS",
    ),
    *("No space left on device", "Py4JNetworkError"),
)
"""Parts of errors that no record can cause."""

CLEANED_UP = ("DELTA_MISSING_FILES_UNEXPECTED_VERSION", "DELTA_VERSION_NOT_FOUND")
"""Errors of Delta for a stream that continues at a version whose log was cleaned up."""

DAMAGED = ("FAILED_READ_FILE", "FILE_NOT_EXIST", "FileNotFoundException", "DELTA_TRUNCATED", "DELTA_VERSIONS_NOT_CON")
"""Errors of Spark and Delta for a table with a file that is cut off or missing."""


def blames_a_record(error: Exception) -> bool:
    """Return whether a record may be the cause of an error; not if Kafka or the disk failed, or a precondition."""
    return not isinstance(error, LakehouseError) and not any(part in str(error) for part in NOT_A_RECORD)


def kafka_is_away(error: PySparkException | None) -> bool:
    """Return whether a query failed because Kafka did not answer."""
    text = str(error)
    return "org.apache.kafka.common.errors.TimeoutException" in text or "Cannot fetch record for offset" in text


def explain_failure(job: str, error: PySparkException, lost: Callable[[], str] = str) -> LakehouseError:
    """Translate the exception of a failed query.

    lost: lists the offsets that the job has not read and that Kafka no longer has.
    """
    text = str(error)
    if "OffsetOutOfRange" in text or "data may have been lost" in text.lower() or "DATA_LOSS" in text:
        return _data_loss(job, lost(), first_lines(text))
    if kafka_is_away(error):
        return LakehouseError(
            f"'{job}' stopped: Kafka did not answer in time.\n{first_lines(text, 1)}",
            f"Nothing is lost. `lakehouse broker status` shows whether the local broker runs. Once Kafka answers, "
            f"`lakehouse stream run {job}` continues where it stopped.",
        )
    if "STATE_STORE" in text and "SCHEMA" in text:
        return LakehouseError(
            f"'{job}' stopped: its state has another schema than its configuration requires, as after a change of "
            "streaming.salted.",
            f"Change the setting back, or rebuild the table: lakehouse stream reset {job}",
        )
    if any(sign in text for sign in CLEANED_UP):
        return LakehouseError(
            f"'{job}' stopped: the log of a table that it reads no longer has the commits that it has not read: it was "
            "stopped for longer than the log is kept (log_retention in config/tables).",
            f"lakehouse stream reset {job}   (computes its history from the rows of the table, which are all there)",
        )
    if any(sign in text for sign in DAMAGED):
        return LakehouseError(
            f"'{job}' stopped: {first_lines(text)}",
            "A file may be damaged or missing. The command that names it and how to fix it: lakehouse doctor",
        )
    return LakehouseError(
        f"'{job}' stopped: {first_lines(text)}",
        f"Nothing is lost: `lakehouse stream run {job}` continues where it stopped. See logs/spark.log in the home.",
    )


def _data_loss(job: str, lost: str, text: str) -> LakehouseError:
    if lost:
        return LakehouseError(
            f"'{job}' stopped: Kafka no longer has {lost}, which were not landed yet. Nothing was skipped.",
            f'lakehouse stream reset {job} --accept-loss "REASON"   (records them in the ledger as lost; landing goes '
            "on after them). Give the topic a longer retention.",
        )
    return LakehouseError(
        f"'{job}' stopped: Kafka's log ends before what was landed; it is not the same log.\n{text}", RESTORE
    )


def first_lines(text: str, count: int = 6) -> str:
    """Return the first lines of an error; for a Python error, its message from the end of the traceback."""
    raised = re.findall(
        r"^\w[\w.]*(?:Error|Exception)\b.*$", text.partition("Traceback (most recent call last)")[2], re.M
    )
    if raised:
        return str(raised[-1])
    return "\n".join(line for line in text.splitlines()[:count] if line.strip())
