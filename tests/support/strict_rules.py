"""A rule that is too strict, for as long as a test wants it: it quarantines a fourth of the records that are good."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from config.rules import Rule
from streaming.landing import parse
from streaming.landing.contract import contracts as declared


@contextmanager
def too_strict() -> Iterator[None]:
    """Land under one more rule in every table; in this process only."""
    contracts = tuple(replace(contract, rules=(*contract.rules, _rule(contract.table.name))) for contract in declared())
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(parse, "contracts", lambda: contracts)
            parse._projections.cache_clear()
            yield
    finally:
        parse._projections.cache_clear()


def _rule(table: str) -> Rule:
    return Rule("strict", table, "event_id", "pmod(hash(event_id), 4) != 0", "quarantine", "Three in four are enough.")
