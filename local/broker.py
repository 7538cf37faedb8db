"""The embedded broker: a single KRaft node of Kafka, on loopback, in the background."""

import os
import subprocess
from datetime import UTC, datetime

from config.errors import LakehouseError
from config.jars import jars
from config.java import find_java
from config.kafka import ensure_topics
from config.rendering import render
from config.settings import ROOT, Settings
from local.background import Background, Status, still_free

CLUSTER_ID = "bGFrZWhvdXNlLWxvY2FsMQ"  # 16 bytes in base64; on one node any fixed value works


class Broker(Background):
    """The embedded broker of one home."""

    name = "broker"
    title = "The broker"
    port_setting = "kafka.port"
    start_hint = (
        "\nIf the data folder is corrupt: lakehouse broker start --reformat   "
        "(the old folder is set aside, not deleted; bronze.events keeps all landed records)"
    )

    def __init__(self, settings: Settings) -> None:
        """Store its data in a folder of its own, and its early output in a file: its log opens later."""
        super().__init__(settings)
        self.data = self.folder / "data"
        self.output = self.log.with_name("broker.out")
        self._properties = self.folder / "server.properties"
        self._logging = self.folder / "log4j2.properties"

    def start(self, *, reformat: bool = False) -> Status:
        """Start the broker unless it is running, wait until it answers, and create the declared topics."""
        self._refuse_external()
        if reformat:
            self._set_data_aside()
        status = super().start()
        with self._alone():
            ensure_topics(self.settings)
        return status

    def stop(self) -> Status:
        """Stop the broker cleanly; its data stays."""
        self._refuse_external()
        return super().stop()

    def prepare(self, port: int) -> None:
        """Write its settings, and format a data folder if there is none."""
        values = {
            "port": port,
            "controller_port": still_free(None),
            "data": self.data,
            "max_record_bytes": self.settings.kafka.max_record_bytes,
        }
        render(ROOT / "config" / "broker.properties", self._properties, values)
        render(ROOT / "config" / "broker-log4j2.properties", self._logging, {"logs": self.log.parent})
        if not (self.data / "meta.properties").exists():
            self._format()

    def command(self, port: int) -> list[str]:
        """Return the command that runs Kafka from its jars."""
        return self._java("kafka.Kafka", str(self._properties))

    def _java(self, *arguments: str) -> list[str]:
        classpath = os.pathsep.join(str(jar) for jar in jars("broker", self.settings))
        options = [f"-Xmx{self.settings.kafka.heap}", f"-Dlog4j2.configurationFile={self._logging}", "-cp", classpath]
        return [str(find_java().command), *options, *arguments]

    def _format(self) -> None:
        arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        done = subprocess.run(self._java(*arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise LakehouseError(
                f"The broker's data folder {self.data} cannot be formatted:\n{done.stdout}{done.stderr}".rstrip(),
                "lakehouse broker start --reformat   (the old folder is set aside, not deleted)",
            )

    def _set_data_aside(self) -> None:
        with self._alone():
            if self.status().running:
                raise LakehouseError("The broker is running: its data cannot be set aside.", "lakehouse broker stop")
            if self.data.exists():
                self.data.rename(self.folder / f"data.set-aside-{datetime.now(UTC):%Y%m%dT%H%M%S}")

    def _refuse_external(self) -> None:
        if self.settings.kafka.servers:
            raise LakehouseError(
                f"The settings name an external Kafka ({self.settings.kafka.servers}): there is no embedded broker.",
                "Clear kafka.servers to use the embedded broker.",
            )
