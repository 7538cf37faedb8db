"""The metastore of the catalog: its address, its user and its password, which only files of the owner hold."""

from pathlib import Path

from config.errors import LakehouseError
from config.files import DamagedFileError, read_port
from config.settings import Settings

USER = "APP"
"""The user that Hive takes by default: a database of an older release belongs to it."""


def password_file(settings: Settings) -> Path:
    """Return the file with the password of the embedded catalog."""
    return settings.home / "catalog" / "password"


def read_password(settings: Settings) -> str | None:
    """Read the password of the embedded catalog; None if there is none yet."""
    file = password_file(settings)
    if not file.exists():
        return None
    if file.stat().st_mode & 0o077:
        raise LakehouseError(f"Others can read {file}, the catalog's password.", f"chmod 600 '{file}'")
    return file.read_text().strip() or None


def connection(settings: Settings) -> dict[str, str]:
    """Return Hive's settings for the catalog; empty if it has never been started with a password."""
    if settings.catalog.metastore:
        return {"hive.metastore.uris": settings.catalog.metastore}
    file = settings.home / "catalog" / "port"
    if not file.exists():
        return {}
    port = read_port(file)
    if port is None:
        raise DamagedFileError(file, "lakehouse catalog stop, then: lakehouse catalog start")
    password = read_password(settings)
    if password is None:
        return {}
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby://127.0.0.1:{port}/metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.ClientDriver",
        "javax.jdo.option.ConnectionUserName": USER,
        "javax.jdo.option.ConnectionPassword": password,
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
    }
