"""Errors of a query: what happened, that nothing is lost, and the command that continues."""

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
            "it is not the same log",
            "Restore the old log",
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


def test_a_loss_is_named_with_the_command_that_accepts_it() -> None:
    raised = StreamingQueryException("Some data may have been lost because they are not available in Kafka any more")
    found = explain_failure("landing", raised, lambda: "clicks/0 offsets 25 to 59 (35)")
    assert "Kafka no longer has clicks/0 offsets 25 to 59 (35), which were not landed yet." in str(found)
    assert found.hint.startswith('lakehouse stream reset landing --accept-loss "REASON"')
