"""POST /retry-payment, GET /health, GET /effects, POST /behaviour: on loopback, one thread per request."""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from threading import Event
from typing import Any

from pydantic import ValidationError

from config.errors import LakehouseError
from config.files import write_whole
from config.settings import Settings
from local.payment_api.behaviour import Behaviour, Behaviours, Mode
from local.payment_api.store import KeyReusedError, Store

HOST = "127.0.0.1"
MAX_BYTES = 2**21


class RefusedError(Exception):
    """A request that fails again if it is repeated."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class PaymentApi(ThreadingHTTPServer):
    """The API of one home; it listens as soon as it is constructed."""

    def __init__(self, settings: Settings, behaviour: Behaviour | None = None) -> None:
        folder = settings.home / "payment-api"
        folder.mkdir(parents=True, exist_ok=True)
        self.store = Store(folder / "calls.sqlite")
        self.behaviours = Behaviours(behaviour)
        self.accepted = settings.payment_api.accepted
        self.stopping = Event()
        self._bind(folder / "address.json", settings.payment_api.port)

    @property
    def address(self) -> str:
        """Return its address."""
        return f"http://{HOST}:{self.server_port}"

    def stop(self) -> None:
        """Stop `serve_forever` and the calls that hang; close the port and the database."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        self.store.close()

    def server_bind(self) -> None:
        """Bind without a DNS lookup of the host name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that closed the connection before the response."""
        if not self.stopping.is_set() and not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def outcome(self, key: str) -> str:
        """Derive the outcome from the key alone, so that the same records give the same outcomes."""
        chance = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) / 2**32
        return "accepted" if chance < self.accepted else "declined"

    def _bind(self, file: Path, configured: int | None) -> None:
        """Bind to the configured port, the previous one or a free one, and store it."""
        try:
            previous = int(json.loads(file.read_text())["port"])
        except (FileNotFoundError, ValueError):
            previous = 0  # the first start, or a power cut has emptied the file
        try:
            super().__init__((HOST, configured or previous), _Request)
        except OSError as error:
            if configured:
                raise LakehouseError(
                    f"Port {configured}, configured for the payment API, cannot be used: {error.strerror}.",
                    "Stop the program that uses it, or choose another port: LAKEHOUSE_PAYMENT_API__PORT.",
                ) from None
            super().__init__((HOST, 0), _Request)
        write_whole(file, json.dumps({"port": self.server_port}))


class _Request(BaseHTTPRequestHandler):
    server: PaymentApi
    timeout = 30  # a silent client must not block a thread forever

    def do_GET(self) -> None:
        """Return the health, or the calls and effects of every key."""
        if self.path == "/health":
            self._health()
        elif self.path == "/effects":
            self._answer(200, {"keys": self.server.store.seen()})
        else:
            self._answer(404, {"error": f"there is no {self.path}"})

    def do_POST(self) -> None:
        """Retry a payment, or change the behaviour."""
        try:
            if self.path == "/retry-payment":
                self._retry(self._body())
            elif self.path == "/behaviour":
                self._change_behaviour(self._body())
            else:
                raise RefusedError(404, f"there is no {self.path}")
        except RefusedError as refused:
            self._answer(refused.status, {"error": str(refused)})

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing per request: the store counts calls."""

    def _retry(self, payment: dict[str, Any]) -> None:
        key = self.headers.get("Idempotency-Key")
        if not key:
            raise RefusedError(400, "the Idempotency-Key header is missing")
        self.server.store.count(key)
        behaviour = self.server.behaviours.next(str(payment.get("payment_id")))
        if behaviour.mode in (Mode.FAIL, Mode.HANG):
            self._misbehave(behaviour)
            return
        _check(payment)
        outcome = "declined" if behaviour.mode is Mode.DECLINE else self.server.outcome(key)
        request = json.dumps(payment, sort_keys=True)
        try:
            outcome, replayed = self.server.store.take_effect(key, request, outcome)
        except KeyReusedError:
            raise RefusedError(422, "the key belongs to another payment") from None
        if behaviour.mode is Mode.SLOW:
            self.server.stopping.wait(behaviour.seconds)
        if behaviour.mode is not Mode.LOSE:
            answer = {"outcome": outcome, "payment_id": payment["payment_id"]}
            self._answer(200, answer, {"Idempotent-Replayed": "true"} if replayed else {})

    def _health(self) -> None:
        behaviour = self.server.behaviours.now
        if behaviour.is_whole and behaviour.mode in (Mode.FAIL, Mode.HANG):
            self._misbehave(behaviour)
        else:
            self._answer(200, {"status": "ok"})

    def _misbehave(self, behaviour: Behaviour) -> None:
        if behaviour.mode is Mode.HANG:
            self.server.stopping.wait(behaviour.seconds)  # then the connection closes without a response
        else:
            self._answer(behaviour.status, {"error": "the behaviour is set to fail"})

    def _change_behaviour(self, wanted: dict[str, Any]) -> None:
        try:
            self.server.behaviours.change(Behaviour.model_validate(wanted))
        except ValidationError as error:
            raise RefusedError(400, str(error)) from None
        self._answer(200, self.server.behaviours.now.model_dump(mode="json"))

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BYTES:
            raise RefusedError(413, f"Content-Length is required and must be at most {MAX_BYTES} bytes")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise RefusedError(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise RefusedError(400, "the body is not a JSON object")
        return body

    def _answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _check(payment: dict[str, Any]) -> None:
    amount = payment.get("amount_cents")
    if not isinstance(payment.get("payment_id"), str) or not isinstance(amount, int) or amount < 0:
        raise RefusedError(400, "a payment needs a payment_id and an amount_cents that is not negative")
