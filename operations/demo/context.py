"""What the steps of a demo share: where to print, the settings of its home, one Spark session, the generated truth."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from config.settings import Settings
from config.terminal import Terminal
from operations.demo.progress import progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lake.costs import Cost
    from local.simulator.truth import Truth


@dataclass(frozen=True)
class Context:
    """What steps have at hand.

    All steps share one Spark session: starting and warming up one for each path took a third of the demo's time. Costs
    stay measurable, as the cost of a path is the processor time of this process and its JVM after it minus that before
    it. But a later path runs on a warmer JVM than an earlier one.
    """

    console: Terminal
    settings: Settings
    events: int
    seed: int
    starting: "Future[SparkSession]"
    """Spark, which starts while Kafka does."""

    stream_costs: "list[Cost]" = field(default_factory=list)
    """What the stream has cost so far: it runs in two steps and is recorded as one."""

    @property
    def spark(self) -> "SparkSession":
        """Return the session, waiting for it where it is still starting."""
        if not self.starting.done():
            with progress(self.console, "Starting Spark"):
                self.starting.result()
        return self.starting.result()

    @cached_property
    def truth(self) -> "Truth":
        """Read what was generated, before other events are."""
        from local.simulator.truth import read_truth

        return read_truth(self.settings)


def start_spark(settings: Settings) -> "SparkSession":
    """Start the demo's Spark session with the catalog: a process can have only one session, and dbt needs names."""
    from config.spark import session
    from local.catalog import Catalog

    Catalog(settings).start()
    return session(settings, "lakehouse demo", catalog=True)
