"""Query errors: the exception of a failed streaming query -> what went wrong, and the command that fixes it."""

import re

from pyspark.errors import StreamingQueryException

from config.errors import LakehouseError


def explain_failure(job: str, error: StreamingQueryException) -> LakehouseError:
    """Translate the exception of a failed query."""
    text = str(error)
    if "OffsetOutOfRange" in text or "data may have been lost" in text.lower() or "DATA_LOSS" in text:
        return LakehouseError(
            f"'{job}' stopped: Kafka no longer holds records that were not landed yet.\n{_first_lines(text)}",
            "Check the topics' retention in config/topics; nothing was skipped.",
        )
    if "org.apache.kafka.common.errors.TimeoutException" in text:
        return LakehouseError(
            f"'{job}' stopped: Kafka did not answer in time.\n{_first_lines(text, 1)}",
            f"Nothing is lost. `lakehouse broker status` shows whether the local broker runs. Once Kafka answers, "
            f"`lakehouse stream run {job}` continues where it stopped.",
        )
    if "STATE_STORE" in text and "SCHEMA" in text:
        return LakehouseError(
            f"'{job}' stopped: its state has another schema than its configuration requires, as after a change of "
            "streaming.salted.",
            f"Change the setting back, or rebuild the table: lakehouse stream reset {job}",
        )
    return LakehouseError(
        f"'{job}' stopped: {_first_lines(text)}",
        f"Nothing is lost: `lakehouse stream run {job}` continues where it stopped. See logs/spark.log in the home.",
    )


def _first_lines(text: str, count: int = 6) -> str:
    """Return the first lines of an error; for a Python error, its message from the end of the traceback."""
    raised = re.findall(
        r"^\w[\w.]*(?:Error|Exception)\b.*$", text.partition("Traceback (most recent call last)")[2], re.M
    )
    if raised:
        return str(raised[-1])
    return "\n".join(line for line in text.splitlines()[:count] if line.strip())
