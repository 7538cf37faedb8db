"""Troubles of a query: what happened, that nothing is lost, and the command that mends it."""

import pytest
from pyspark.errors import StreamingQueryException

from streaming.query_errors import explain_failure


@pytest.mark.parametrize(
    ("raised", "message", "hint"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes",
            "'landing' stopped: Kafka did not answer in time.",
            "lakehouse broker status",
        ),
        (
            "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: out of range",
            "Kafka no longer holds records that were not landed yet",
            "retention in config/topics",
        ),
        (
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] other",
            "its state has another schema than its configuration requires",
            "lakehouse stream reset landing",
        ),
        ("java.io.IOException: No space left on device", "No space left on device", "lakehouse stream run landing"),
    ],
)
def test_a_query_that_stopped_says_why_and_what_to_do(raised: str, message: str, hint: str) -> None:
    found = explain_failure("landing", StreamingQueryException(raised))
    assert message in str(found)
    assert hint in found.hint
