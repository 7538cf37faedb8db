"""The plan of a replay: what it reads and from where, how long it takes, and what blocks it."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kafka import KafkaConsumer, TopicPartition
from rich.table import Table

from config.errors import LakehouseError
from config.kafka import Offsets, begin_offsets, end_offsets, python_options, reachable
from config.settings import Settings
from config.terminal import Terminal
from lake import ledger
from lake.generations import Source, live
from lake.location import table_location, warehouse
from lake.locks import holder
from replay import landing_again
from replay.checks import drops
from replay.manifest import Mode, Replay, new
from streaming.job import Job
from streaming.landing.archive import by_topic
from streaming.progress import last_progress

EARLIEST = "earliest"


@dataclass(frozen=True)
class ReplayPlan:
    """What a replay would do; `blockers` lists why it cannot."""

    replay: Replay
    ranges: dict[tuple[str, int], tuple[int, int]]
    bytes: int
    span: tuple[datetime, datetime] | None
    seconds: float | None
    disk_needed: int
    disk_free: int
    blockers: list[tuple[str, str]] = field(default_factory=list)
    """Each reason with the command that fixes it."""

    @property
    def records(self) -> int:
        """Return the number of offsets to read."""
        return sum(high - low for low, high in self.ranges.values())


def plan(settings: Settings, jobs: list[Job], source: Source, since: str, mode: Mode = "bounded") -> ReplayPlan:
    """Plan a replay without changing anything."""
    reads_log = any(job.topics for job in jobs)
    topics = sorted({topic for job in jobs for topic in job.topics})
    blockers: list[tuple[str, str]] = []
    low: Offsets = {}
    high: Offsets = {}
    if reads_log and source == "kafka":
        high = end_offsets(settings, topics)
        low = _starting(settings, since, high)
        missing = _no_longer_there(low, begin_offsets(settings, topics))
        if missing:
            blockers.append(
                (
                    f"Kafka no longer has {missing}; the archive has them.",
                    "lakehouse replay run --source bronze",
                )
            )
    elif reads_log:
        if since != EARLIEST:
            raise LakehouseError(f"A replay from {source} starts at its first record.", "Omit --from.")
        high = dict(ledger.landed_up_to(settings, "landing", live(settings)["silver.clicks"]))
        low = dict.fromkeys(high, 0)
        blockers += landing_again.reasons(settings) if source == "silver" else []
    ranges = {partition: (low.get(partition, 0), end) for partition, end in high.items()}
    starting = json.dumps(by_topic(low)) if since != EARLIEST and source == "kafka" else EARLIEST
    replay = new(settings, jobs, source, starting, mode)
    size, span = _landed(settings, topics)
    served = live(settings)
    needed = sum(table_location(settings, name, served[name]).size() for name in replay.tables)
    free = warehouse(settings).free()
    if needed > free:
        blockers.append(
            (
                f"It needs about {needed / 2**30:.1f} GiB of disk; {free / 2**30:.1f} GiB are free.",
                "lakehouse replay list, then: lakehouse replay drop GENERATION",
            )
        )
    blockers += [(error.problem, error.hint) for error in drops(settings, replay, jobs)]
    if other := holder(settings, "replay"):
        pid = other.get("pid")
        blockers.append((f"Another replay runs in process {pid}.", f"Wait for it, or stop it: kill {pid}"))
    return ReplayPlan(replay, ranges, size, span, _seconds(settings, ranges), needed, free, blockers)


def show_plan(planned: ReplayPlan, console: Terminal) -> None:
    """Print what a replay would do, and what blocks it."""
    replay = planned.replay
    console.print(f"Generation {replay.generation}, from {replay.source}: {', '.join(replay.tables)}")
    if planned.ranges:
        table = Table("partition", "from", "to", "records")
        for (topic, partition), (low, high) in sorted(planned.ranges.items()):
            table.add_row(f"{topic}/{partition}", f"{low:,}", f"{high:,}", f"{high - low:,}")
        console.print(table)
    if planned.span:
        first, last = planned.span
        console.print(
            f"{planned.records:,} records, {planned.bytes / 2**20:.1f} MiB, events from {first:%Y-%m-%d %H:%M} to "
            f"{last:%Y-%m-%d %H:%M}."
        )
    took = f"about {planned.seconds:.0f} s at the rate of landing" if planned.seconds else "unknown: nothing was landed"
    console.print(
        f"Time: {took}. Disk: about {planned.disk_needed / 2**20:.1f} MiB of {planned.disk_free / 2**30:.1f} GiB free."
    )
    for why, hint in planned.blockers:
        console.print(f"✗ {why}", style="red")
        console.print(hint)


def _starting(settings: Settings, since: str, ends: Offsets) -> Offsets:
    """Parse --from: earliest, an arrival time, or offsets as JSON."""
    if since == EARLIEST:
        return dict.fromkeys(ends, 0)
    if since.lstrip().startswith("{"):
        try:
            given = json.loads(since)
            return {partition: int(given.get(partition[0], {}).get(str(partition[1]), 0)) for partition in ends}
        except (ValueError, AttributeError):
            raise LakehouseError(f"--from {since} is not JSON with offsets.", 'Like: {"clicks": {"0": 100}}') from None
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise LakehouseError(
            f"--from '{since}' is not `earliest`, a time or offsets.", "Like: --from 2026-01-05T12:00:00Z"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    with reachable(settings):
        consumer = KafkaConsumer(**python_options(settings))
        try:
            asked = {TopicPartition(*partition): int(moment.timestamp() * 1000) for partition in ends}
            found = consumer.offsets_for_times(asked)
        finally:
            consumer.close()
    return {(p.topic, p.partition): at.offset if at else ends[p.topic, p.partition] for p, at in found.items()}


def _no_longer_there(low: Offsets, begins: Offsets) -> str:
    gone = {partition: begin for partition, begin in begins.items() if begin > low.get(partition, 0)}
    return ", ".join(f"{topic}/{part} {low.get((topic, part), 0):,}–{end - 1:,}" for (topic, part), end in gone.items())


def _landed(settings: Settings, topics: list[str]) -> tuple[int, tuple[datetime, datetime] | None]:
    """Return the bytes and the span of event time that landing has read from the topics."""
    entries = [row for row in ledger.entries(settings, ["landing"]) if row["topic"] in topics]
    first = min((row["generation"] for row in entries), default=1)
    mine = [row for row in entries if row["generation"] == first]
    times = [row[name] for row in mine for name in ("min_event_time", "max_event_time") if row[name]]
    return sum(row["bytes"] for row in mine), (min(times), max(times)) if times else None


def _seconds(settings: Settings, ranges: dict[tuple[str, int], tuple[int, int]]) -> float | None:
    """Estimate from the last rate of landing; the gold jobs take about as long again."""
    progress = last_progress("landing", settings, 1)
    if not progress or not progress.rows_per_second:
        return None
    return sum(high - low for low, high in ranges.values()) / progress.rows_per_second * 2
