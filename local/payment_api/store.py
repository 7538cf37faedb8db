"""The API's database: each call, each effect, and the response to each idempotency key."""

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Lock

# `effects` deliberately has no unique key: tests check that each key has one effect, the schema does not force it.
_TABLES = """
create table if not exists calls (key text primary key, calls integer not null);
create table if not exists answers (key text primary key, request text not null, outcome text not null);
create table if not exists effects (id integer primary key, key text not null, outcome text not null);
"""


class KeyReusedError(Exception):
    """The key was already used, with another request."""


class Store:
    """An SQLite file; a response is on disk before it is sent."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        # FULL: a call that was answered survives a crash of the machine, not only of the process.
        self._database.executescript(f"pragma journal_mode = wal; pragma synchronous = full; {_TABLES}")

    def count(self, key: str) -> None:
        """Count a call, whatever its outcome."""
        with self._lock:
            self._database.execute(
                "insert into calls values (?, 1) on conflict (key) do update set calls = calls + 1", [key]
            )

    def take_effect(self, key: str, request: str, outcome: str) -> tuple[str, bool]:
        """Apply a payment unless its key was applied before; return its outcome, and whether it was applied before."""
        with self._lock, self._database:
            self._database.execute("begin immediate")
            known = self._database.execute("select request, outcome from answers where key = ?", [key]).fetchone()
            if known is None:
                self._database.execute("insert into answers values (?, ?, ?)", [key, request, outcome])
                self._database.execute("insert into effects (key, outcome) values (?, ?)", [key, outcome])
                return outcome, False
        if known[0] != request:
            raise KeyReusedError
        return str(known[1]), True

    def seen(self) -> dict[str, dict[str, object]]:
        """Return calls, effects and outcome of each key."""
        query = """
            select key, calls, count(effects.id), max(outcome)
            from calls left join effects using (key) group by key order by key
        """
        with self._lock, closing(self._database.execute(query)) as rows:
            return {key: {"calls": calls, "effects": n, "outcome": outcome} for key, calls, n, outcome in rows}

    def totals(self) -> tuple[int, int]:
        """Count all calls, and all payments that took effect."""
        query = "select (select coalesce(sum(calls), 0) from calls), (select count(*) from effects)"
        with self._lock:
            calls, effects = self._database.execute(query).fetchone()
        return int(calls), int(effects)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
