"""Records that are set aside: named one by one, kept with a reason, and lifted once."""

import pytest
from typer.testing import CliRunner

from config.errors import LakehouseError
from config.settings import Settings
from lake import ledger
from streaming.commands import app
from streaming.set_aside import active, lift, set_aside

ORIGIN = ("clicks", 0, 17)


def test_a_record_is_set_aside_once_and_lifted_with_its_reason_kept(fresh_home: Settings) -> None:
    for _ in range(2):
        set_aside(fresh_home, [ORIGIN], "overflow")
    (held,) = active(fresh_home)
    assert (held.origin, held.reason) == (ORIGIN, "overflow")
    assert held.condition == "(topic = 'clicks' and partition = 0 and offset = 17)"
    lift(fresh_home, [ORIGIN])
    assert active(fresh_home) == []
    assert "overflow" in (fresh_home.home / "set_aside.json").read_text()
    set_aside(fresh_home, [ORIGIN], "again")
    assert [each.reason for each in active(fresh_home)] == ["again"]


@pytest.mark.parametrize("record", ["clicks", "clicks/0", "clicks/0/x", "clicks/0/1/2", "nothing/0/1", "clicks/-1/1"])
def test_what_is_no_record_of_the_log_is_refused(fresh_home: Settings, record: str) -> None:
    refused = CliRunner().invoke(app, ["stream", "set-aside", record, "--reason", "why"]).exception
    assert isinstance(refused, LakehouseError)
    assert f"'{record}' is not a record that landing reads" in refused.problem
    assert active(fresh_home) == []


def test_a_record_that_has_landed_is_refused(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "landed_up_to", lambda *_: {("clicks", 0): 18})
    refused = CliRunner().invoke(app, ["stream", "set-aside", "clicks/0/17", "--reason", "why"]).exception
    assert isinstance(refused, LakehouseError)
    assert "clicks/0/17 has landed already" in refused.problem
    assert CliRunner().invoke(app, ["stream", "set-aside", "clicks/0/18", "--reason", "why"]).exit_code == 0
    assert [each.origin for each in active(fresh_home)] == [("clicks", 0, 18)]
