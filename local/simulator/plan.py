"""The plan of a run: what the simulator is asked for, checked, and how the work is cut into shards."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from config.errors import LakehouseError

EVENTS_PER_SHARD = 50_000
MOST_EVENTS = 1_000_000_000
MOST_DAYS = 366
MOST_LIVE_SECONDS = 3_600


@dataclass(frozen=True)
class Plan:
    """Hold the options of one run; equal plans give equal records, byte for byte, on any machine and in either mode."""

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
    """Seconds for which events come as they happen, from the start on; then days do not count, nor a rate."""

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated, naming the option."""
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
            for option in (name for name, there in given.items() if there):
                raise LakehouseError(f"--live and --{option} do not go together: live, events come when they happen.")
        if not 1971 <= self.start.year <= 2199:
            raise LakehouseError(f"--start is in the year {self.start.year}; it must lie between 1971 and 2199.")
        if self.start.tzinfo is None or self.start.utcoffset() != timedelta(0):
            raise LakehouseError("--start must be a time in UTC.", "Write it like 2026-01-05 or 2026-01-05T06:00:00.")

    @property
    def run(self) -> str:
        """Name the run by what makes its event ids: the seed and the start."""
        return f"seed{self.seed}-{self.start:%Y%m%dT%H%M%S}"

    @property
    def start_ms(self) -> int:
        """Give the first moment of the period, in milliseconds since 1970."""
        return int(self.start.timestamp()) * 1000

    @property
    def length(self) -> timedelta:
        """Give how long the period is."""
        return timedelta(days=self.days) if self.live is None else timedelta(seconds=self.live)

    @property
    def end(self) -> datetime:
        """Give the first moment after the period."""
        return self.start + self.length

    @property
    def end_ms(self) -> int:
        """Give the first moment after the period, in milliseconds since 1970."""
        return self.start_ms + self.length // timedelta(milliseconds=1)

    @property
    def shards(self) -> int:
        """Count the shards: by the number of events alone, so that a machine's cores do not change the records."""
        return -(-self.events // EVENTS_PER_SHARD)

    def quota(self, shard: int) -> int:
        """Say how many valid events the shard must give."""
        return self.events // self.shards + (shard < self.events % self.shards)

    @property
    def options(self) -> dict[str, object]:
        """Give the options as JSON can hold them."""
        return {**asdict(self), "start": self.start.isoformat()}


def _within(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        name = "--" + option.replace("_", "-")
        raise LakehouseError(f"{name} is {value:g}; it must lie between {least:g} and {most:g}.")
