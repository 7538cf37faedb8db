"""The embedded catalog: the Hive metastore's database in a Derby server, on loopback, with a password of its own."""

import importlib.util
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from config.errors import LakehouseError
from config.files import write_whole
from config.jars import jars
from config.java import find_java
from config.metastore import USER, password_file, read_password
from local.background import INHERITED, Background, Status

PROPERTIES = f"""\
# Written after the user was created. Also creating another database and the shutdown command need the password.
derby.authentication.provider=NATIVE:metastore
derby.connection.requireAuthentication=true
derby.database.sqlAuthorization=true
derby.database.defaultConnectionMode=noAccess
derby.database.fullAccessUsers={USER}
"""
USER_EXISTS = "X0Y68"
"""Derby's error for a user that an interrupted start has created already."""


class Catalog(Background):
    """The catalog of one home: the views and tables that dbt, SQL clients and notebooks share."""

    name = "catalog"
    title = "The catalog"
    port_setting = "catalog.port"

    def start(self) -> Status:
        """Start the catalog unless it is running or an external metastore is configured."""
        if self.settings.catalog.metastore:
            return Status(True, None, None, f"an external metastore: {self.settings.catalog.metastore}")
        if self.status().running and not password_file(self.settings).exists():
            self.stop()  # a server of an older release, which lets everyone in
        return super().start()

    def prepare(self, port: int) -> None:
        """Make a password, and a database that asks for it; a database of an older release gets it too."""
        database, properties = self.folder / "metastore", self.folder / "derby.properties"
        if database.exists() and properties.exists():
            if not read_password(self.settings):
                raise self._locked(f"{password_file(self.settings)} is lost")
            return
        if not read_password(self.settings):
            write_whole(password_file(self.settings), secrets.token_hex(32), private=True)
        properties.unlink(missing_ok=True)
        if not (database / "service.properties").exists():
            shutil.rmtree(database, ignore_errors=True)  # what a start left that was killed while it created it
        self._create_user()
        write_whole(properties, PROPERTIES)

    def command(self, port: int) -> list[str]:
        """Return the command that runs Derby's network server, from pyspark's Derby jars and the one it lacks."""
        return [
            *self._java(),
            *("org.apache.derby.drda.NetworkServerControl", "start"),
            *("-h", "127.0.0.1", "-p", str(port), "-noSecurityManager"),
        ]

    def _create_user(self) -> None:
        """Create the user, and the database unless it exists, in a process that accepts no connections."""
        password = read_password(self.settings)
        done = subprocess.run(
            [*self._java(), "-XX:TieredStopAtLevel=1", "org.apache.derby.tools.ij"],
            # On its input: a command line is visible to every user.
            input=f"connect 'jdbc:derby:metastore;create=true;user={USER};password={password}';\n"
            f"call SYSCS_UTIL.SYSCS_CREATE_USER('{USER}', '{password}');\nexit;\n",
            env={name: value for name, value in os.environ.items() if name in INHERITED},
            capture_output=True,
            text=True,
            check=False,
        )
        errors = [line.partition("ERROR ")[2] for line in done.stdout.splitlines() if "ERROR " in line]
        errors = [error for error in errors if not error.startswith(USER_EXISTS)]
        if done.returncode or errors:
            raise self._locked("\n".join(errors) or done.stderr[-500:])

    def _java(self) -> list[str]:
        classpath = os.pathsep.join(map(str, [*_shipped("derby*.jar"), *jars("catalog", self.settings)]))
        return [
            *(str(find_java().home / "bin" / "java"), "-Xmx128m", "-cp", classpath),
            f"-Dderby.system.home={self.folder}",
            f"-Dderby.stream.error.file={self.log.with_name('derby.log')}",
        ]

    def _locked(self, problem: str) -> LakehouseError:
        return LakehouseError(
            f"The catalog's database cannot be opened: {problem}",
            f"It contains names only. Make a new one: rm -rf '{self.folder / 'metastore'}' "
            f"'{self.folder / 'views.json'}', then: lakehouse catalog refresh",
        )


def _shipped(pattern: str) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob(f"jars/{pattern}")) if spec and spec.origin else []
    if not found:
        raise LakehouseError(f"There is no {pattern} in the pyspark package.", "Run `make setup` again.")
    return found
