"""Client of the payment API: one HTTP call, and the meaning of its status."""

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection, responses
from typing import Any
from urllib.parse import urlsplit

from config.errors import LakehouseError
from config.files import decode
from config.settings import Settings
from streaming.roles.reactor.payments import FailedPayment

# Statuses that refuse this payment for good. Any other redirect or client error says that we called the wrong address,
# in the wrong way or with the wrong credentials: no payment may lose its retry because of that.
REFUSAL_STATUS = {400, 402, 409, 410, 413, 422}
# Client errors after which the call may be repeated.
RETRYABLE_STATUS = {408, 425, 429}
OUTCOMES = ("accepted", "declined")


class ApiFailedError(Exception):
    """No response, or one that does not decide the payment: the call may be repeated."""


class RefusedError(Exception):
    """The API rejects this request for good."""


def address(settings: Settings) -> str:
    """Return the address of the API: the configured one, or that of this home's stand-in."""
    if settings.reactor.api:
        return settings.reactor.api
    state = settings.home / "payment-api" / "address.json"
    if not state.exists():
        raise LakehouseError("The payment API has never been started here.", "lakehouse payment-api")
    port = decode(state.read_bytes(), state, "Stop the payment API (Ctrl-C), then: lakehouse payment-api")["port"]
    return f"http://127.0.0.1:{port}"


class Api:
    """The API at an address; each call opens its own connection, so threads share nothing."""

    def __init__(self, address: str, call_seconds: float) -> None:
        self.address, self._call_seconds = address, call_seconds

    def retry(self, payment: FailedPayment) -> str:
        """Retry a payment and return the outcome: accepted or declined."""
        headers = {"Idempotency-Key": payment.event_id, "Content-Type": "application/json"}
        status, answer = self._request("POST", "/retry-payment", json.dumps(payment.request).encode(), headers)
        if status in REFUSAL_STATUS:
            raise RefusedError(f"the API rejected it ({status}): {str(answer.get('error', ''))[:200]}")
        if 300 <= status < 500 and status not in RETRYABLE_STATUS:
            raise LakehouseError(
                f"POST {self.address}/retry-payment was answered with {_named(status)}: this is not the payment API, "
                "or it does not accept our credentials. No payment was declined for that.",
                "Correct reactor.api (LAKEHOUSE_REACTOR__API), then: lakehouse react",
            )
        if status != 200 or answer.get("outcome") not in OUTCOMES:
            raise ApiFailedError(f"the API answered {status}")
        return str(answer["outcome"])

    def is_healthy(self) -> bool:
        """Return whether the health endpoint reports 200."""
        try:
            return self._request("GET", "/health")[0] == 200
        except ApiFailedError:
            return False

    def _request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(self.address)
        connection_type = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = connection_type(parts.netloc, timeout=self._call_seconds)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            raise ApiFailedError(f"the API did not answer: {error or type(error).__name__}") from None
        finally:
            connection.close()
        return response.status, _json_object(content)


def _named(status: int) -> str:
    return f"{status} {responses.get(status, '')}".strip()


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
