"""`compare` fails if a row has no reason; the comparison itself is tested elsewhere."""

from typing import Any

import pytest
from typer.testing import CliRunner

from batch.compare.commands import app
from config.settings import Settings
from expectations.parity.reasons import LATE, UNEXPLAINED, Explained
from expectations.parity.rows import Parity


@pytest.mark.parametrize(("reason", "code"), [(LATE, 0), (UNEXPLAINED, 1)])
def test_it_fails_if_a_row_has_no_reason(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch, reason: str, code: int
) -> None:
    rows: Any = None
    parity = Parity("gold.sessions", None, 1, 2, 0, 0, "a", "b", rows)
    found = {"gold.sessions": Explained(parity, rows, {reason: 2}, ())}
    monkeypatch.setattr("config.spark.session", lambda *_, **__: None)
    monkeypatch.setattr("batch.comparison_side.batch_side", lambda *_: object())
    monkeypatch.setattr("expectations.parity.sides.generation_side", lambda *_: object())
    monkeypatch.setattr("expectations.parity.comparison.compared", lambda *_, **__: found)
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, repr(result.exception)) == (code, f"SystemExit({code})" if code else "None")
    assert ("2 rows differ without a reason" in result.output) == (reason == UNEXPLAINED)
