"""Notifications: a failed audit reaches a real HTTP and a real SMTP server, once; a passed one reaches nobody."""

import json
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from config.terminal import Terminal
from expectations.gate import Audit, Finding
from expectations.notifications import send
from expectations.settings import CheckSettings

LOOK = 'lakehouse sql "select …"'
FAILED = Finding(
    "silver.orders", "amount_not_negative", "fail", "An amount is not negative.", 3, [{"order_id": "o7"}], LOOK
)
WARNED = Finding("gold.sessions", "few", "warn", "There are few.", 1, [], LOOK)
KEPT = Finding("silver.orders", "key_unique", "fail", "There is one row per key.", 0, [], LOOK)
AUDIT = Audit("check silver", [FAILED, WARNED, KEPT], datetime(2026, 1, 5, 12, tzinfo=UTC))


@contextmanager
def running(server: socketserver.TCPServer) -> Iterator[int]:
    """Run a server on a free port of loopback."""
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def web(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A web server that remembers what is posted, and answers with the code that the test asks for."""
    posted: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((f"{self.path} {self.headers['Content-Type']}", json.loads(body)))
            self.send_response(getattr(request, "param", 200))
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with running(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/checks", posted


@pytest.fixture
def mail() -> Iterator[tuple[str, list[str]]]:
    """An SMTP server (RFC 5321) that accepts each message; it keeps the commands and the lines that it was sent."""
    lines: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 ready\r\n")
            in_message = False
            for line in self.rfile:
                text = line.decode().rstrip("\r\n")
                lines.append(text)
                if in_message and text != ".":
                    continue
                in_message = text.upper() == "DATA"
                self.wfile.write(
                    b"354 go on\r\n" if in_message else b"221 bye\r\n" if text.upper() == "QUIT" else b"250 ok\r\n"
                )

    with running(socketserver.TCPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"127.0.0.1:{port}", lines


def notifying(settings: Settings, **values: Any) -> Settings:
    return settings.model_copy(update={"expectations": CheckSettings(**values)})


def test_a_webhook_gets_each_failed_check_once_without_rows(
    fresh_home: Settings, web: tuple[str, list[tuple[str, Any]]]
) -> None:
    address, posted = web
    assert send(notifying(fresh_home, webhook=address), AUDIT) == []
    ((where, body),) = posted
    assert where == "/checks application/json"
    assert body == {
        "check": "check silver",
        "checked_at": "2026-01-05T12:00:00+00:00",
        "passed": False,
        "failures": [
            {
                "table": "silver.orders",
                "rule": "amount_not_negative",
                "severity": "fail",
                "description": "An amount is not negative.",
                "rows": 3,
                "look": LOOK,
            }
        ],
        "warnings": [{**body["warnings"][0], "rule": "few", "rows": 1}],
    }
    assert "o7" not in json.dumps(body)


def test_an_e_mail_names_each_broken_rule(fresh_home: Settings, mail: tuple[str, list[str]]) -> None:
    server, lines = mail
    chosen = notifying(
        fresh_home, mail_server=server, mail_security="none", mail_to=("data@example.org", "ops@example.org")
    )
    assert send(chosen, AUDIT) == []
    receivers = [line.partition(":")[2] for line in lines if line.upper().startswith("RCPT TO:")]
    assert receivers == ["<data@example.org>", "<ops@example.org>"]
    assert "Subject: Check failed: check silver" in lines
    assert "silver.orders: An amount is not negative. (amount_not_negative, 3 rows)" in lines
    assert "gold.sessions: There are few. (few, 1 rows)" in lines
    assert not [line for line in lines if "key_unique" in line or "o7" in line]


def test_a_passed_check_notifies_nobody(
    fresh_home: Settings, web: tuple[str, list[tuple[str, Any]]], mail: tuple[str, list[str]]
) -> None:
    chosen = notifying(fresh_home, webhook=web[0], mail_server=mail[0], mail_to=("data@example.org",))
    assert send(chosen, Audit("check silver", [WARNED, KEPT])) == []
    assert (web[1], mail[1]) == ([], [])


@pytest.mark.parametrize("web", [500], indirect=True)
def test_a_receiver_that_fails_is_named_and_the_others_are_notified(
    fresh_home: Settings,
    web: tuple[str, list[tuple[str, Any]]],
    mail: tuple[str, list[str]],
    console: Terminal,
) -> None:
    chosen = notifying(
        fresh_home, webhook=web[0], mail_server=mail[0], mail_security="none", mail_to=("data@example.org",)
    )
    reasons = send(chosen, AUDIT)
    assert reasons == ["webhook: HTTP Error 500: Internal Server Error"]
    assert "Subject: Check failed: check silver" in mail[1]
    audit = Audit(AUDIT.name, AUDIT.findings, not_sent=tuple(reasons))
    audit.show(console)
    assert "! Not notified: webhook: HTTP Error 500" in console.export_text()
    assert not audit.passed


def test_a_mail_server_without_tls_gets_no_message_unless_the_settings_allow_it(
    fresh_home: Settings, mail: tuple[str, list[str]]
) -> None:
    (reason,) = send(notifying(fresh_home, mail_server=mail[0], mail_to=("data@example.org",)), AUDIT)
    assert "STARTTLS" in reason
    assert "Subject: Check failed: check silver" not in mail[1]


def test_a_password_that_others_can_read_is_not_sent(
    fresh_home: Settings, mail: tuple[str, list[str]], tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("secret")
    file.chmod(0o644)
    login = {"mail_user": "me", "mail_password_file": file, "mail_security": "none"}
    (reason,) = send(notifying(fresh_home, mail_server=mail[0], mail_to=("data@example.org",), **login), AUDIT)
    assert f"Others can read expectations.mail_password_file {file}." in reason
    assert "Subject: Check failed: check silver" not in mail[1]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("mail_server: localhost:25", "expectations.mail_to = (): Value error, a mail_server is set"),
        ("webhook: example.org/hook", "it should start with http:// or https://"),
        ("mail_server: localhost\n  mail_to: [a@b.c]", "expectations.mail_server = 'localhost'"),
        ("webhok: http://localhost", "unknown key 'expectations.webhok': did you mean 'expectations.webhook'?"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_when_it_is_read(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"expectations:\n  {text}\n")
    with pytest.raises(LakehouseError) as error:
        load_settings(file)
    assert what in error.value.problem
