"""The embedded catalog: the Hive metastore's database in a Derby server, on loopback and without passwords."""

import importlib.util
import os
from pathlib import Path

from config.errors import LakehouseError
from config.jars import jars
from config.java import find_java
from local.background import Background, Status


class Catalog(Background):
    """The catalog of one home: the views and tables that dbt, SQL clients and notebooks share."""

    name = "catalog"
    title = "The catalog"
    port_setting = "catalog.port"

    def start(self) -> Status:
        """Start the catalog unless it is running or an external metastore is configured."""
        if self.settings.catalog.metastore:
            return Status(True, None, None, f"an external metastore: {self.settings.catalog.metastore}")
        return super().start()

    def command(self, port: int) -> list[str]:
        """Return the command that runs Derby's network server, from pyspark's Derby jars and the one it lacks."""
        classpath = os.pathsep.join(map(str, [*_shipped("derby*.jar"), *jars("catalog", self.settings)]))
        return [
            *(str(find_java().home / "bin" / "java"), "-Xmx128m", "-cp", classpath),
            f"-Dderby.system.home={self.folder}",
            f"-Dderby.stream.error.file={self.log.with_name('derby.log')}",
            *("org.apache.derby.drda.NetworkServerControl", "start"),
            *("-h", "127.0.0.1", "-p", str(port), "-noSecurityManager"),
        ]


def _shipped(pattern: str) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob(f"jars/{pattern}")) if spec and spec.origin else []
    if not found:
        raise LakehouseError(f"There is no {pattern} in the pyspark package.", "Run `make setup` again.")
    return found
