"""Settings of the quality checks: the section `expectations`, which config/settings.py finds by this file."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from config.section import Section


def _address(address: SecretStr) -> SecretStr:
    """Check that a text is the address of a web server."""
    if not address.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("it should start with http:// or https://")
    return address


class CheckSettings(Section):
    """Who is notified when a check fails."""

    webhook: Annotated[SecretStr, AfterValidator(_address)] | None = Field(
        None, description="address to which each failed check is posted as JSON"
    )
    mail_server: str | None = Field(None, pattern=r"^[^:/]+:\d+$", description="host:port of an SMTP server")
    mail_security: Literal["none", "starttls", "tls"] = "starttls"
    mail_user: str | None = Field(None, description="user to log in as; empty: without a login")
    mail_password_file: Path | None = Field(None, description="file with the password of mail_user")
    mail_from: str = Field("lakehouse@localhost", pattern=r"^[^@\s]+@[^@\s]+$")
    mail_to: tuple[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")], ...] = Field(
        (), validate_default=True, description="who gets an e-mail about each failed check"
    )
    timeout_seconds: float = Field(10.0, gt=0, description="longest wait for the webhook or the mail server")

    @field_validator("mail_to")
    @classmethod
    def _somebody(cls, receivers: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.data.get("mail_server") and not receivers:
            raise ValueError("a mail_server is set, so it should name at least one address")
        return receivers


SECTION = CheckSettings
