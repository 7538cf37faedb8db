"""The reactor: retry the failed payments of a batch, then commit outcomes, dead letters and offsets together."""

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
from streaming.kafka.consumer import Group, PolledBatch, Progress, Record, RetryBatchError, consume
from streaming.kafka.dead_letter import dead_letter
from streaming.kafka.transactions import Message, Transactions
from streaming.roles.reactor.api import Api, address
from streaming.roles.reactor.breaker import Breaker
from streaming.roles.reactor.outcomes import outcome
from streaming.roles.reactor.payments import FailedPayment, UnreadableError, failed_payment
from streaming.roles.reactor.retries import Retrier, Settled, StoppedError
from streaming.roles.reactor.settled_payments import SettledPayments

NAME = "reactor"
DEAD = "dead_letter"
KEEP_ALIVE_SECONDS = 1.0


@dataclass(frozen=True)
class ReactorProgress:
    """The consumer's progress, the records by outcome, and for how long the circuit has been open."""

    progress: Progress
    counts: Counter[str]
    open_for: float


OnProgress = Callable[[ReactorProgress], None]


@dataclass
class _Work:
    """The records of a batch, sorted: payments to retry, dead letters with their reason, and counts of the others."""

    payments: dict[str, tuple[FailedPayment, Record]] = field(default_factory=dict)
    letters: list[tuple[Record, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def record_of(self, payment: FailedPayment) -> Record:
        """Return the record that contains a payment."""
        return self.payments[payment.event_id][1]


def react(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    accept_loss: str | None = None,
    watch: OnProgress = lambda _: None,
) -> ReactorProgress:
    """Retry failed payments, starting at the committed offsets of the last reactor."""
    api = Api(address(settings), settings.reactor.call_seconds)
    if not api.is_healthy():
        raise LakehouseError(
            f"The payment API at {api.address} does not answer, or reports that it is not healthy.",
            "Check reactor.api." if settings.reactor.api else "lakehouse payment-api",
        )
    group = Group(NAME, ("payments",), settings.reactor.records_per_transaction, instance=NAME, command="react")
    # Only one reactor runs at a time, so its transactional id is constant. Open the transactions first: this aborts the
    # open transaction of a killed reactor, and only then are the outcomes in payment_retries final.
    with single_writer(settings, [NAME]), closing(Transactions(settings, NAME, NAME)) as transactions:
        settled = SettledPayments(settings.reactor.remembered_outcomes)
        with reachable(settings):
            settled.load(settings)
        reactor = Reactor(settings, api, transactions, settled, until_caught_up, watch)
        with reactor.pool:
            try:
                progress = consume(
                    settings,
                    group,
                    reactor.handle,
                    until_caught_up=until_caught_up,
                    accept_loss=accept_loss,
                    watch=reactor.report,
                    stop=reactor.stop,
                )
            finally:
                reactor.stop.set()  # however it ends, no thread goes on retrying
    return reactor.progress(progress)


class Reactor:
    """The state of one process between batches: circuit breaker, settled payments, thread pool."""

    def __init__(
        self,
        settings: Settings,
        api: Api,
        transactions: Transactions,
        settled: SettledPayments,
        until_caught_up: bool,
        watch: OnProgress,
    ) -> None:
        own, self._settings = settings.reactor, settings
        self.stop = Event()
        self.pool = ThreadPoolExecutor(own.parallel_calls, "payment")
        self._breaker = Breaker(own.failures_to_open, own.open_seconds)
        self._retrier = Retrier(own, api, self._breaker, self.stop)
        self._transactions, self._settled, self._watch = transactions, settled, watch
        self._max_outage = own.outage_seconds if until_caught_up else float("inf")
        self._counts: Counter[str] = Counter()
        self._consumer_progress = Progress()
        self._reload_settled = False

    def handle(self, batch: PolledBatch) -> None:
        """Settle the payments of a batch, then commit outcomes, dead letters and offsets in one transaction."""
        if self._reload_settled:
            self._settled.load(self._settings)
            self._reload_settled = False
        work = self._sort(batch)
        settled = self._settle(batch, [payment for payment, _ in work.payments.values()])
        letters = [*work.letters, *((work.record_of(each.payment), each.reason) for each in settled if each.reason)]
        now = datetime.now(UTC)
        messages = [outcome(each, now) for each in settled] + [self._letter(*letter) for letter in letters]
        try:
            self._transactions.write(messages, batch.offsets, batch.member)
        except RetryBatchError:
            self._reload_settled = True  # the transaction may have been committed nevertheless
            raise
        self._settled.add(each.payment for each in settled)
        self._counts += work.counts + Counter(each.outcome for each in settled)
        self._counts += Counter({"dead letters": len(letters), "calls": sum(each.attempts for each in settled)})

    def report(self, progress: Progress) -> None:
        """Report the progress."""
        self._consumer_progress = progress
        self._watch(self.progress(progress))

    def progress(self, progress: Progress) -> ReactorProgress:
        """Return the progress of the reactor."""
        return ReactorProgress(progress, self._counts, self._breaker.open_for)

    def _sort(self, batch: PolledBatch) -> _Work:
        work = _Work()
        for record in (record for records in batch.records.values() for record in records):
            try:
                payment = failed_payment(record.value)
            except UnreadableError as reason:
                work.letters.append((record, str(reason)))
                continue
            if payment is None:
                work.counts["other events"] += 1
                continue
            first = work.payments.get(payment.event_id)
            digest = first[0].digest if first else self._settled.digest_of(payment.event_id)
            if digest is None:
                work.payments[payment.event_id] = (payment, record)
            elif digest == payment.digest:
                work.counts["copies"] += 1
            else:
                work.letters.append((record, "event_id_reused: another payment has an outcome under this event_id"))
        return work

    def _letter(self, record: Record, reason: str) -> Message:
        letter = dead_letter(record, reason)
        return Message(DEAD, None, None, letter, [], record.timestamp)

    def _settle(self, batch: PolledBatch, payments: list[FailedPayment]) -> list[Settled]:
        calls = [self.pool.submit(self._retrier.settle, payment) for payment in payments]
        try:
            while not _are_done(calls):
                batch.keep_alive()
                self.report(self._consumer_progress)
                self._check_outage()
        except StoppedError:
            raise RetryBatchError("the reactor is being stopped") from None
        finally:
            for call in calls:
                call.cancel()
        return [call.result() for call in calls]

    def _check_outage(self) -> None:
        if self._breaker.open_for > self._max_outage:
            raise LakehouseError(
                f"The payment API has been down for {self._breaker.open_for:.0f} s. "
                "Nothing is lost: the next run retries the same payments.",
                "lakehouse payment-api, then: lakehouse react",
            )


def _are_done(calls: list[Future[Settled]]) -> bool:
    done, waiting = wait(calls, timeout=KEEP_ALIVE_SECONDS, return_when=FIRST_EXCEPTION)
    for call in done:
        call.result()  # re-raises the exception of the call
    return not waiting
