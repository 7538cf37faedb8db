"""The payment API as the reactor sees it: one call over HTTP, and what its answer means."""

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from config.errors import LakehouseError
from config.settings import Settings
from streaming.roles.reactor.payments import FailedPayment

# The API says that it is not the payment's fault, and that it may be asked again.
AGAIN = {408, 429}
OUTCOMES = ("accepted", "declined")


class ApiFailedError(Exception):
    """No answer, or one that says nothing about the payment: the call may be repeated."""


class RefusedError(Exception):
    """The API will not take this request, however often it is asked."""


def address(settings: Settings) -> str:
    """Give the API's address: the configured one, or that of the stand-in of this home."""
    if settings.reactor.api:
        return settings.reactor.api
    state = settings.home / "payment-api" / "address.json"
    if not state.exists():
        raise LakehouseError("The payment API has never been started here.", "lakehouse payment-api")
    return f"http://127.0.0.1:{json.loads(state.read_text())['port']}"


class Api:
    """The API at an address; each call has a connection of its own, so that threads share nothing."""

    def __init__(self, address: str, call_seconds: float) -> None:
        self.address, self._call_seconds = address, call_seconds

    def retry(self, payment: FailedPayment) -> str:
        """Ask for a payment to be retried, and give the outcome: accepted or declined."""
        headers = {"Idempotency-Key": payment.event_id, "Content-Type": "application/json"}
        status, answer = self._ask("POST", "/retry-payment", json.dumps(payment.request).encode(), headers)
        if status in (401, 403):
            # Not this payment is refused but we are: it must not cost a single payment its retry.
            raise LakehouseError(f"The payment API at {self.address} does not let us in ({status}).")
        if 400 <= status < 500 and status not in AGAIN:
            raise RefusedError(f"the API refused it ({status}): {str(answer.get('error', ''))[:200]}")
        if status != 200 or answer.get("outcome") not in OUTCOMES:
            raise ApiFailedError(f"the API answered {status}")
        return str(answer["outcome"])

    def is_well(self) -> bool:
        """Say whether the API says that it is well."""
        try:
            return self._ask("GET", "/health")[0] == 200
        except ApiFailedError:
            return False

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(self.address)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.netloc, timeout=self._call_seconds)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            raise ApiFailedError(f"the API did not answer: {error or type(error).__name__}") from None
        finally:
            connection.close()
        return response.status, _object(content)


def _object(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
