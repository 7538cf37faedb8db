"""The truth of a run: counts and event ids of the records it wrote -> home/truth/<run>.json."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from config.errors import LakehouseError
from config.files import decode, write_whole
from config.settings import Settings
from local.simulator.clock import allowance_ms
from local.simulator.goods import HOT, PRODUCT_IDS
from local.simulator.plan import Plan
from local.simulator.records import Record, counted, labelled, rows
from local.simulator.shop import topics_of

COUNTED = ("valid", "late")
"""Labels of valid first copies: not duplicates, not malformed, not of bots."""
HOUR_MS = 3_600_000
Names = dict[str, list[str]]
Kinds = dict[str, dict[str, str]]


@dataclass
class Truth:
    """The records in Kafka, by topic. A defect lists one event id per record, so an id may occur several times."""

    runs: list[str] = field(default_factory=list)
    options: list[dict[str, object]] = field(default_factory=list)
    allowances_ms: dict[str, int | None] = field(default_factory=dict)
    hot_product: str = PRODUCT_IDS[HOT].as_py()
    stopped: bool = False
    """Whether a paced run was stopped early; the truth then covers the records that were sent."""
    records: dict[str, int] = field(default_factory=dict)
    events: dict[str, dict[str, int]] = field(default_factory=dict)
    """Distinct valid events by topic and type: on time and late, without duplicates and bots."""
    views: dict[str, int] = field(default_factory=dict)
    """Distinct valid page views of `clicks` by hour of event time: on time and late."""
    late: Names = field(default_factory=dict)
    """Valid records beyond the allowance, including duplicates."""
    late_copies: Names = field(default_factory=dict)
    """Those of `late` that duplicate an earlier event."""
    duplicates: Names = field(default_factory=dict)
    """Duplicates of an event that are not late."""
    malformed: Kinds = field(default_factory=dict)
    """Malformed records: the id in their header `simulator_id` -> how they are malformed."""
    bots: Kinds = field(default_factory=dict)
    """Events of bots -> how the bot is recognized: agent or rate."""
    bot_users: list[str] = field(default_factory=list)

    def add_batch(self, records: pa.RecordBatch) -> None:
        """Add a batch of records that will be written."""
        for (topic, kind, label), count in counted(records, "topic", "type", "label").items():
            self._count(topic, kind, label, count)
        page_views = pc.and_(pc.equal(records["topic"], "clicks"), pc.equal(records["type"], "page_view"))
        page_views = pc.and_(page_views, pc.or_(labelled(records, "valid"), labelled(records, "late")))
        hours = records["event_ms"].to_numpy()[page_views.to_numpy(zero_copy_only=False)] // HOUR_MS
        for hour, count in zip(*np.unique(hours, return_counts=True), strict=True):
            self._count_views(int(hour), int(count))
        self._list_defects(rows(records.filter(pc.invert(labelled(records, "valid")))))

    def add(self, records: list[Record]) -> None:
        """Add records that were written."""
        for record in records:
            self._count(record.topic, record.type, record.label, 1)
            if (record.topic, record.type) == ("clicks", "page_view") and record.label in COUNTED:
                self._count_views(record.event_ms // HOUR_MS, 1)
        self._list_defects(record for record in records if record.label != "valid")

    def _count(self, topic: str, kind: str, label: str, count: int) -> None:
        self.records[topic] = self.records.get(topic, 0) + count
        if label in COUNTED:
            by_type = self.events.setdefault(topic, {})
            by_type[kind] = by_type.get(kind, 0) + count

    def _count_views(self, hour: int, count: int) -> None:
        moment = f"{datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC):%Y-%m-%dT%H:%M}"
        self.views[moment] = self.views.get(moment, 0) + count

    def _list_defects(self, records: Iterable[Record]) -> None:
        bot_users = set(self.bot_users)
        for record in records:
            match record.label:
                case "late":
                    self.late.setdefault(record.topic, []).append(record.id)
                case "late_copy":
                    self.late.setdefault(record.topic, []).append(record.id)
                    self.late_copies.setdefault(record.topic, []).append(record.id)
                case "duplicate":
                    self.duplicates.setdefault(record.topic, []).append(record.id)
                case "malformed":
                    self.malformed.setdefault(record.topic, {})[record.id] = record.kind
                case "bot":
                    self.bots.setdefault(record.topic, {})[record.id] = record.kind
                    bot_users.add(record.key.decode())
        self.bot_users = sorted(bot_users)

    def merge(self, other: "Truth") -> None:
        """Add the truth of another run, or of another shard of this run."""
        self.runs += other.runs
        self.options += other.options
        self.allowances_ms |= other.allowances_ms
        self.stopped |= other.stopped
        self.bot_users += other.bot_users
        for topic, count in other.records.items():
            self.records[topic] = self.records.get(topic, 0) + count
        self.views = dict(Counter(self.views) + Counter(other.views))
        for topic, types in other.events.items():
            self.events[topic] = dict(Counter(self.events.get(topic, {})) + Counter(types))
        for mine, theirs in (
            (self.late, other.late),
            (self.late_copies, other.late_copies),
            (self.duplicates, other.duplicates),
        ):
            for topic, ids in theirs.items():
                mine.setdefault(topic, []).extend(ids)
        for known, more in ((self.malformed, other.malformed), (self.bots, other.bots)):
            for topic, kinds in more.items():
                known.setdefault(topic, {}).update(kinds)

    def accepted(self, topic: str) -> int:
        """Return the number of a topic's events that belong in silver: valid, on time, once each."""
        firsts_late = len(self.late.get(topic, [])) - len(self.late_copies.get(topic, []))
        return sum(self.events.get(topic, {}).values()) - firsts_late


def new_truth(plan: Plan) -> Truth:
    """Return the empty truth of a run."""
    allowances = {name: allowance_ms(topic) for name, topic in topics_of(plan).items()}
    return Truth(runs=[plan.run], options=[plan.options], allowances_ms=allowances)


def begin(settings: Settings, plan: Plan) -> None:
    """Mark a run as started; the mark of an interrupted run stays, because a part of it is in Kafka."""
    mark = _mark(settings, plan)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def forget(settings: Settings, plan: Plan) -> None:
    """Delete the mark of a run."""
    _mark(settings, plan).unlink(missing_ok=True)


def write(settings: Settings, plan: Plan, truth: Truth) -> Path:
    """Write the truth of a finished run."""
    file = truth_file(settings, plan)
    write_whole(file, json.dumps(asdict(truth), indent=1))
    forget(settings, plan)
    return file


def read_truth(settings: Settings) -> Truth:
    """Read the truth of all runs together."""
    folder = _folder(settings)
    interrupted = sorted(file.stem for file in folder.glob("*.begun"))
    if interrupted:
        raise LakehouseError(
            f"The run {interrupted[0]} has not ended or was interrupted: its truth is unknown.",
            "Wait for it; or start with an empty log: lakehouse broker stop, then: lakehouse broker start --reformat",
        )
    together = Truth()
    for file in sorted(folder.glob("*.json")):
        values = decode(file.read_bytes(), file, f"Its run cannot be compared any more: rm '{file}'")
        together.merge(Truth(**values))
    return together


def refuse_again(settings: Settings, plan: Plan, log_is_empty: bool) -> None:
    """Refuse a run that Kafka already has; if Kafka is empty, set old truth files aside."""
    folder = _folder(settings)
    if log_is_empty:
        for file in [*folder.glob("*.json"), *folder.glob("*.begun")]:
            aside = folder / "of-emptied-logs"
            aside.mkdir(exist_ok=True)
            file.replace(aside / file.name)
    begun = _mark(settings, plan).exists()
    if begun or truth_file(settings, plan).exists():
        raise LakehouseError(
            f"Kafka already has {'a part of ' if begun else ''}the run of seed {plan.seed} from "
            f"{plan.start:%Y-%m-%d %H:%M}: writing it again would duplicate its records.",
            f"Choose another run: --seed {plan.seed + 1}, or --start {plan.end:%Y-%m-%d}",
        )


def truth_file(settings: Settings, plan: Plan) -> Path:
    """Return the truth file of a run."""
    return _folder(settings) / f"{plan.run}.json"


def _mark(settings: Settings, plan: Plan) -> Path:
    return _folder(settings) / f"{plan.run}.begun"


def _folder(settings: Settings) -> Path:
    return settings.home / "truth"
