"""Notifications: a failed audit -> the webhook and the e-mail addresses of the settings.

They name tables, rules and numbers of rows. Rows themselves, which may contain personal data, stay in the home.
"""

import http.client
import json
import smtplib
import ssl
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

from config.errors import LakehouseError
from config.password_files import read_password
from config.settings import Settings
from expectations.settings import CheckSettings

if TYPE_CHECKING:
    from expectations.gate import Audit, Finding

Sender = Callable[[CheckSettings, "Audit"], None]


def send(settings: Settings, audit: "Audit") -> list[str]:
    """Notify whom the settings name of a failed audit; return each notification that failed, with the reason.

    A receiver that cannot be reached does not change the result of the audit.
    """
    chosen = settings.section(CheckSettings)
    senders: dict[str, Sender | None] = {
        "webhook": _post if chosen.webhook else None,
        "e-mail": _mail if chosen.mail_server else None,
    }
    not_sent = []
    for name, sender in senders.items():
        if sender and not audit.passed:
            try:
                sender(chosen, audit)
            except (OSError, http.client.HTTPException, LakehouseError) as error:  # SMTP and HTTP errors are OSErrors
                not_sent.append(f"{name}: {error}")
    return not_sent


def _post(chosen: CheckSettings, audit: "Audit") -> None:
    address = chosen.webhook.get_secret_value() if chosen.webhook else ""
    body = json.dumps(as_json(audit)).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310  (settings allow only http and https)
    with urllib.request.urlopen(request, timeout=chosen.timeout_seconds):  # noqa: S310
        pass


def as_json(audit: "Audit") -> dict[str, Any]:
    """Return what a webhook receives."""
    return {
        "check": audit.name,
        "checked_at": audit.checked_at.isoformat() if audit.checked_at else None,
        "passed": audit.passed,
        "failures": [_broken(finding) for finding in audit.failures],
        "warnings": [_broken(finding) for finding in audit.warnings],
    }


def _broken(finding: "Finding") -> dict[str, Any]:
    names = ("table", "rule", "severity", "description", "rows", "look")
    return {name: getattr(finding, name) for name in names}


def _mail(chosen: CheckSettings, audit: "Audit") -> None:
    message = EmailMessage()
    message["Subject"] = f"Check failed: {audit.name}"
    message["From"] = chosen.mail_from
    message["To"] = ", ".join(chosen.mail_to)
    broken = (*audit.failures, *audit.warnings)
    lines = (f"{each.table}: {each.description} ({each.rule}, {each.rows:,} rows)\n  {each.look}" for each in broken)
    message.set_content("\n".join(lines))
    file = chosen.mail_password_file
    password = read_password(file, "expectations.mail_password_file") if file else ""
    host, _, port = str(chosen.mail_server).partition(":")
    connect = smtplib.SMTP_SSL if chosen.mail_security == "tls" else smtplib.SMTP
    with connect(host, int(port), timeout=chosen.timeout_seconds) as server:
        if chosen.mail_security == "starttls":
            server.starttls(context=ssl.create_default_context())
        if chosen.mail_user:
            server.login(chosen.mail_user, password)
        server.send_message(message)
