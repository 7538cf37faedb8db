"""The plan of a simulator run: its validated options, and the division of its work into shards."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from config.errors import LakehouseError

EVENTS_PER_SHARD = 50_000
MOST_EVENTS = 1_000_000_000
MOST_DAYS = 366
MOST_LIVE_SECONDS = 3_600


@dataclass(frozen=True)
class Plan:
    """The options of one run; equal plans give identical records, on any machine and in every mode."""

    seed: int = 7
    events: int = 100_000
    start: datetime = datetime(2026, 1, 5, tzinfo=UTC)
    days: int = 1
    rate: float | None = None
    late: float = 0.01
    duplicates: float = 0.01
    malformed: float = 0.002
    bots: float = 0.05
    hot_key: float = 0.05
    edge: bool = False
    live: int | None = None
    """Seconds of real-time events, from the start on; excludes days and rate."""

    def __post_init__(self) -> None:
        """Raise an error for an invalid option, with its name."""
        _within("events", self.events, 1, MOST_EVENTS)
        _within("days", self.days, 1, MOST_DAYS)
        for share in ("late", "duplicates", "malformed", "bots", "hot_key"):
            _within(share, getattr(self, share), 0, 1)
        if self.rate is not None and not 0 < self.rate <= 1_000_000:
            raise LakehouseError(
                f"--rate is {self.rate:g} events per second; it must be above 0.",
                "Leave --rate out to write as fast as possible.",
            )
        if self.live is not None:
            _within("live", self.live, 1, MOST_LIVE_SECONDS)
            given = {"rate": self.rate is not None, "days": self.days != 1, "edge": self.edge}
            for option in (name for name, is_given in given.items() if is_given):
                raise LakehouseError(f"--live and --{option} cannot be combined: live events come in real time.")
        if not 1971 <= self.start.year <= 2199:
            raise LakehouseError(f"--start is in the year {self.start.year}; it must be between 1971 and 2199.")
        if self.start.tzinfo is None or self.start.utcoffset() != timedelta(0):
            raise LakehouseError("--start must be a time in UTC.", "Write it like 2026-01-05 or 2026-01-05T06:00:00.")

    @property
    def run(self) -> str:
        """Return the name of the run: seed and start, which also determine its event ids."""
        return f"seed{self.seed}-{self.start:%Y%m%dT%H%M%S}"

    @property
    def start_ms(self) -> int:
        """Return the start of the period, in milliseconds since 1970."""
        return int(self.start.timestamp()) * 1000

    @property
    def length(self) -> timedelta:
        """Return the length of the period."""
        return timedelta(days=self.days) if self.live is None else timedelta(seconds=self.live)

    @property
    def end(self) -> datetime:
        """Return the end of the period, exclusive."""
        return self.start + self.length

    @property
    def end_ms(self) -> int:
        """Return the end of the period, exclusive, in milliseconds since 1970."""
        return self.start_ms + self.length // timedelta(milliseconds=1)

    @property
    def shards(self) -> int:
        """Return the number of shards; it depends on the number of events only, not on the machine's cores."""
        return -(-self.events // EVENTS_PER_SHARD)

    def quota(self, shard: int) -> int:
        """Return the number of valid events of a shard."""
        return self.events // self.shards + (shard < self.events % self.shards)

    @property
    def options(self) -> dict[str, object]:
        """Return the options as JSON values."""
        return {**asdict(self), "start": self.start.isoformat()}


def _within(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        name = "--" + option.replace("_", "-")
        raise LakehouseError(f"{name} is {value:g}; it must be between {least:g} and {most:g}.")
