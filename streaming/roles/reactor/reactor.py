"""The reactor's work on one batch: read the payments, retry them, tell the outcomes together with the offsets."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event

from config.errors import LakehouseError
from config.kafka import reachable
from config.settings import Settings
from lake.locks import single_writer
from streaming.kafka.consumer import Again, Batch, Group, Progress, Record, consume
from streaming.kafka.dead_letter import dead_letter
from streaming.kafka.transactions import Message, Transactions
from streaming.roles.reactor.api import Api, address
from streaming.roles.reactor.breaker import Breaker
from streaming.roles.reactor.outcomes import outcome
from streaming.roles.reactor.payments import FailedPayment, UnreadableError, failed_payment
from streaming.roles.reactor.retries import Retrier, Settled, StoppedError
from streaming.roles.reactor.settled_payments import Memory

NAME = "reactor"
DEAD = "dead_letter"
KEEP_SECONDS = 1.0


@dataclass(frozen=True)
class Seen:
    """How far the reactor is: records of the log, what became of them, and how long the API has been down."""

    progress: Progress
    counts: Counter[str]
    open_for: float


Watch = Callable[[Seen], None]


@dataclass
class _Sorted:
    """The records of a batch by what is to be done with them."""

    payments: dict[str, tuple[FailedPayment, Record]] = field(default_factory=dict)
    letters: list[tuple[Record, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def record(self, payment: FailedPayment) -> Record:
        """Give the record that a payment came in."""
        return self.payments[payment.event_id][1]


def react(settings: Settings, *, until_caught_up: bool = False, watch: Watch = lambda _: None) -> Seen:
    """Retry the failed payments of the log, from where the last reactor stopped."""
    api = Api(address(settings), settings.reactor.call_seconds)
    if not api.is_well():
        raise LakehouseError(
            f"The payment API at {api.address} does not answer, or says that it is not well.",
            "Check reactor.api." if settings.reactor.api else "lakehouse payment-api",
        )
    group = Group(NAME, ("payments",), settings.reactor.records_per_transaction, instance=NAME)
    # There is one at a time, so its transactional id is always the same. The transactions come first: they end what a
    # reactor that was killed had begun, and only then is known what was told.
    with single_writer(settings, [NAME]), closing(Transactions(settings, NAME, NAME)) as transactions:
        memory = Memory(settings.reactor.remembered_outcomes)
        with reachable(settings):
            memory.learn(settings)
        reactor = Reactor(settings, api, transactions, memory, until_caught_up, watch)
        with reactor.pool:
            try:
                progress = consume(
                    settings,
                    group,
                    reactor.do,
                    until_caught_up=until_caught_up,
                    watch=reactor.look,
                    stop=reactor.stop,
                )
            finally:
                reactor.stop.set()  # whatever it ends by, no thread goes on trying
    return reactor.seen(progress)


class Reactor:
    """What one process keeps between batches: the circuit breaker, the memory of outcomes, the threads that call."""

    def __init__(
        self,
        settings: Settings,
        api: Api,
        transactions: Transactions,
        memory: Memory,
        until_caught_up: bool,
        watch: Watch,
    ) -> None:
        own, self._settings = settings.reactor, settings
        self.stop = Event()
        self.pool = ThreadPoolExecutor(own.parallel_calls, "payment")
        self._breaker = Breaker(own.failures_to_open, own.open_seconds)
        self._retrier = Retrier(own, api, self._breaker, self.stop)
        self._transactions, self._memory, self._watch = transactions, memory, watch
        self._patience = own.outage_seconds if until_caught_up else float("inf")
        self._counts: Counter[str] = Counter()
        self._most_bytes = settings.kafka.max_record_bytes - 1024
        self._progress = Progress()
        self._memory_is_old = False

    def do(self, batch: Batch) -> None:
        """Settle the payments of a batch, then make outcomes, dead letters and offsets durable in one transaction."""
        if self._memory_is_old:
            self._memory.learn(self._settings)
            self._memory_is_old = False
        todo = self._sort(batch)
        settled = self._settle(batch, [payment for payment, _ in todo.payments.values()])
        letters = [*todo.letters, *((todo.record(each.payment), each.reason) for each in settled if each.reason)]
        now = datetime.now(UTC)
        messages = [outcome(each, now) for each in settled] + [self._letter(*letter) for letter in letters]
        try:
            self._transactions.write(messages, batch.offsets, batch.member)
        except Again:
            self._memory_is_old = True  # they may have been written all the same
            raise
        self._memory.keep(each.payment for each in settled)
        self._counts += todo.counts + Counter(each.outcome for each in settled)
        self._counts += Counter({"dead letters": len(letters), "calls": sum(each.attempts for each in settled)})

    def look(self, progress: Progress) -> None:
        """Pass on how far the reactor is."""
        self._progress = progress
        self._watch(self.seen(progress))

    def seen(self, progress: Progress) -> Seen:
        """Say how far the reactor is."""
        return Seen(progress, self._counts, self._breaker.open_for)

    def _sort(self, batch: Batch) -> _Sorted:
        todo = _Sorted()
        for record in (record for records in batch.records.values() for record in records):
            try:
                payment = failed_payment(record.value)
            except UnreadableError as reason:
                todo.letters.append((record, str(reason)))
                continue
            if payment is None:
                todo.counts["other events"] += 1
                continue
            first = todo.payments.get(payment.event_id)
            digest = first[0].digest if first else self._memory.digest_of(payment.event_id)
            if digest is None:
                todo.payments[payment.event_id] = (payment, record)
            elif digest == payment.digest:
                todo.counts["copies"] += 1
            else:
                todo.letters.append((record, "event_id_reused: another payment has an outcome under this event_id"))
        return todo

    def _letter(self, record: Record, reason: str) -> Message:
        letter = dead_letter(record, reason, record.value or b"", self._most_bytes)
        return Message(DEAD, None, None, letter, [], record.timestamp)

    def _settle(self, batch: Batch, payments: list[FailedPayment]) -> list[Settled]:
        calls = [self.pool.submit(self._retrier.settle, payment) for payment in payments]
        try:
            while not _are_done(calls):
                batch.keep_place()
                self.look(self._progress)
                self._lose_patience()
        except StoppedError:
            raise Again("the reactor is being stopped") from None
        finally:
            for call in calls:
                call.cancel()
        return [call.result() for call in calls]

    def _lose_patience(self) -> None:
        if self._breaker.open_for > self._patience:
            raise LakehouseError(
                f"The payment API has been down for {self._breaker.open_for:.0f} s. "
                "Nothing is lost: the next run goes on with the same payments.",
                "lakehouse payment-api, then: lakehouse react",
            )


def _are_done(calls: list[Future[Settled]]) -> bool:
    done, waiting = wait(calls, timeout=KEEP_SECONDS, return_when=FIRST_EXCEPTION)
    for call in done:
        call.result()  # raises what the call raised
    return not waiting
