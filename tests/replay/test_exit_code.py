"""`replay verify` fails if a row has no reason or a rule is broken; the comparison itself is tested elsewhere."""

from typing import Any

import pytest
from typer.testing import CliRunner

from config.settings import Settings
from expectations.parity.reasons import LATE, UNEXPLAINED
from replay import manifest
from replay.certificate import Certificate
from replay.commands import app
from streaming.job import jobs

BROKEN = [{"table": "gold.sessions", "rule": "key_unique", "rows": 1, "look": "lakehouse sql …"}]


@pytest.mark.parametrize(
    ("reason", "failures", "code"),
    [(LATE, [], 0), (UNEXPLAINED, [], 1), (LATE, BROKEN, 1)],
    ids=["late", "unexplained", "broken"],
)
def test_verify_fails_if_something_is_unexplained_or_broken(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch, reason: str, failures: list[Any], code: int
) -> None:
    built = manifest.new(fresh_home, list(jobs().values()), "kafka", "earliest")
    manifest.save(fresh_home, built)
    table = {"equal": 1, "by_reason": {reason: 2}, "unexplained": 2 if reason == UNEXPLAINED else 0}
    against = {"what is served": {"gold.sessions": table}}
    found = Certificate({"against": against, "notes": [], "audit": {"failures": failures}})
    monkeypatch.setattr("config.spark.session", lambda *_, **__: None)
    monkeypatch.setattr("replay.checks.refuse_unfit", lambda *_: None)
    monkeypatch.setattr("replay.certificate.verify", lambda *_: found)
    result = CliRunner().invoke(app, ["replay", "verify", str(built.generation)])
    assert (result.exit_code, repr(result.exception)) == (code, f"SystemExit({code})" if code else "None")
    assert ("2 rows differ without a reason" in result.output) == (reason == UNEXPLAINED)
    assert ("To serve it" in result.output) == (code == 0)
