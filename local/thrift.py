"""The embedded Thrift server: Spark's own, from the pyspark package, for JDBC and dbt's target `cluster`."""

import importlib.util
from pathlib import Path

from config.errors import LakehouseError
from local.background import Background, Status
from local.catalog import Catalog

SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


class Thrift(Background):
    """The Thrift server of one home: a Spark session that answers over a socket, on the home's catalog."""

    name = "thrift"
    title = "The Thrift server"
    port_setting = "catalog.thrift_port"
    seconds = 180

    @property
    def address(self) -> str:
        """Give host and port of the configured server, or of this home's own."""
        return self.settings.catalog.thrift or f"127.0.0.1:{self.status().port or 10000}"

    def start(self) -> Status:
        """Start the server unless it runs, and the catalog before it."""
        if self.settings.catalog.thrift:
            raise LakehouseError(
                f"Settings name a Thrift server ({self.settings.catalog.thrift}): there is none of ours here.",
                "Empty catalog.thrift to use the embedded one.",
            )
        Catalog(self.settings).start()
        return super().start()

    def command(self, port: int) -> list[str]:
        """Submit the server to the session's master, on loopback."""
        options = {
            "hive.server2.thrift.port": port,
            "hive.server2.thrift.bind.host": "127.0.0.1",
            "lakehouse.folder": self.folder,  # read by nobody but us, who tell the process by it
        }
        return [
            *(str(_spark_home() / "bin" / "spark-submit"), "--name", "lakehouse thrift", "--class", SERVER),
            "spark-internal",
            *(word for name, value in options.items() for word in ("--hiveconf", f"{name}={value}")),
        ]

    def environment(self) -> dict[str, str]:
        """Give it the settings that every session of the project has."""
        from config.spark import environment  # here: pyspark takes long to import, and other commands need none

        return environment(self.settings) | {"SPARK_HOME": str(_spark_home())}


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if not spec or not spec.origin:
        raise LakehouseError("There is no pyspark here.", "Run `make setup` again.")
    return Path(spec.origin).parent
