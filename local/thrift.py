"""The embedded Thrift server: Spark's, from the pyspark package, for JDBC and dbt's target `cluster`."""

import importlib.util
from pathlib import Path

from config.errors import LakehouseError
from local.background import Background, Status
from local.catalog import Catalog

SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


class Thrift(Background):
    """The Thrift server of one home: a Spark session behind a socket, with the home's catalog."""

    name = "thrift"
    title = "The Thrift server"
    port_setting = "catalog.thrift_port"
    seconds = 180

    @property
    def address(self) -> str:
        """Return host:port of the configured server or of the embedded one."""
        return self.settings.catalog.thrift or f"127.0.0.1:{self.status().port or 10000}"

    def start(self) -> Status:
        """Start the catalog and the server, unless they are running."""
        if self.settings.catalog.thrift:
            raise LakehouseError(
                f"The settings name a Thrift server ({self.settings.catalog.thrift}): there is no embedded one.",
                "Clear catalog.thrift to use the embedded one.",
            )
        Catalog(self.settings).start()
        return super().start()

    def command(self, port: int) -> list[str]:
        """Return the spark-submit command that runs the server on loopback."""
        options = {
            "hive.server2.thrift.port": port,
            "hive.server2.thrift.bind.host": "127.0.0.1",
            "lakehouse.folder": self.folder,  # unused by Spark: it identifies the process
        }
        return [
            *(str(_spark_home() / "bin" / "spark-submit"), "--name", "lakehouse thrift", "--class", SERVER),
            "spark-internal",
            *(word for name, value in options.items() for word in ("--hiveconf", f"{name}={value}")),
        ]

    def environment(self) -> dict[str, str]:
        """Return the variables that give it the Spark settings of every session."""
        from config.spark import environment  # here: pyspark is slow to import, and other commands do not need it

        return environment(self.settings) | {"SPARK_HOME": str(_spark_home())}


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if not spec or not spec.origin:
        raise LakehouseError("pyspark is not installed.", "Run `make setup` again.")
    return Path(spec.origin).parent
