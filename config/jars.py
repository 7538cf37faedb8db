"""Jars: config/ivy.xml -> checked files in a cache that checkouts share.

`python -m config.jars` fetches what is missing, with the Ivy that pyspark ships; when all is there it uses no network.
`python -m config.jars --record` is for maintainers, after a change of ivy.xml: it resolves anew and rewrites
config/jars.sha256. Read the difference before committing it.
`python -m config.jars --remove` takes away the jars that only this checkout uses.
"""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from config.errors import LakehouseError
from config.locks import exclusive
from config.settings import ROOT, Settings, load_settings

IVY_FILE = ROOT / "config" / "ivy.xml"
SUMS_FILE = ROOT / "config" / "jars.sha256"
FETCH = "Run `make setup`: it fetches them again."


@dataclass(frozen=True)
class Store:
    """The folder that holds the jars of one ivy.xml with its sums: another file, another folder."""

    cache: Path
    ivy_file: Path = IVY_FILE
    sums_file: Path = SUMS_FILE

    @property
    def folder(self) -> Path:
        """Where the jars are: a folder per conf, and `sizes`, written when all of them had been verified."""
        key = hashlib.sha256(self.ivy_file.read_bytes() + b"\0" + self.sums_file.read_bytes()).hexdigest()[:16]
        return self.cache / "jars" / key

    def sums(self) -> dict[str, str]:
        """Read the recorded sums: `spark/delta-storage-4.4.0.jar` -> SHA-256."""
        lines = self.sums_file.read_text().splitlines()
        return {name: sum_ for sum_, name in (line.split(maxsplit=1) for line in lines if line)}

    def intact(self) -> bool:
        """Tell cheaply whether every jar that was verified is still there in its size."""
        try:
            sizes = [line.split(maxsplit=1) for line in (self.folder / "sizes").read_text().splitlines()]
            return all((self.folder / name).stat().st_size == int(size) for size, name in sizes)
        except FileNotFoundError:
            return False


def jars(conf: str, settings: Settings) -> list[Path]:
    """List the verified jars of a conf of ivy.xml."""
    store = Store(settings.cache)
    if not store.intact():
        raise LakehouseError(f"Jars are missing from {store.folder}.", FETCH)
    names = [name for name in store.sums() if name.startswith(f"{conf}/")]
    if not names:
        confs = sorted({name.split("/")[0] for name in store.sums()})
        raise LakehouseError(f"There are no jars for '{conf}': config/ivy.xml has {', '.join(confs)}.")
    return [store.folder / name for name in names]


def verify(settings: Settings) -> int:
    """Read every jar again and compare its sum; tell how many there are."""
    store = Store(settings.cache)
    if not store.folder.exists():
        raise LakehouseError(f"Jars are missing from {store.folder}.", FETCH)
    check(store.folder, store.sums())
    return len(store.sums())


def fetch(settings: Settings) -> Path:
    """Bring the jars into the cache unless they are there, whole, and tell the folder."""
    store = Store(settings.cache)
    if not store.intact():
        with _alone(store.cache):
            if not store.intact():  # another checkout may have fetched them while this one waited
                with _resolved(settings, store) as fresh:
                    check(fresh, store.sums())
                    _put(fresh, store.folder)
    _mark_user(store.folder)
    return store.folder


def record(settings: Settings) -> int:
    """Resolve ivy.xml anew and write the sums of what came, for maintainers; tell how many."""
    store = Store(settings.cache)
    with _alone(store.cache), _resolved(settings, store) as fresh:
        names = [path.relative_to(fresh).as_posix() for path in _found(fresh)]
        store.sums_file.write_text("".join(f"{_sum(fresh / name)}  {name}\n" for name in names))
        _put(fresh, store.folder)
    _mark_user(store.folder)
    return len(names)


def remove(settings: Settings) -> None:
    """Take away the jars that no other existing checkout uses, and what a broken download left."""
    if not settings.cache.exists():
        return
    with _alone(settings.cache):
        shutil.rmtree(settings.cache / "ivy", ignore_errors=True)
        for users in settings.cache.glob("jars/*/users"):
            marks = list(users.iterdir())  # none: an administrator put these jars there
            if marks and not any(mark.name != _user() and Path(mark.read_text()).exists() for mark in marks):
                shutil.rmtree(users.parent)
            else:
                (users / _user()).unlink(missing_ok=True)


def check(folder: Path, sums: dict[str, str]) -> None:
    """Compare a folder of jars with the recorded sums, both ways."""
    there = {path.relative_to(folder).as_posix(): path for path in _found(folder)}
    problems = [f"{name} is missing" for name in sums.keys() - there.keys()]
    problems += [f"{name} is not listed in config/jars.sha256" for name in there.keys() - sums.keys()]
    problems += [
        f"{name} has another SHA-256 than config/jars.sha256 records"
        for name in sums.keys() & there.keys()
        if _sum(there[name]) != sums[name]
    ]
    if problems:
        raise LakehouseError(
            "\n  ".join([f"The jars in {folder} are not the recorded ones:", *sorted(problems)]),
            f"Delete {folder} if it still exists and run `make setup`. If it happens again, the repository or mirror "
            "serves other files than the maintainers saw: do not use them.",
        )


@contextmanager
def _resolved(settings: Settings, store: Store) -> Iterator[Path]:
    """Let Ivy fill a folder beside the final one; it is gone afterwards unless it was put in place."""
    from config.ivy import resolve  # here, because a warm start needs neither Rich nor Java

    ivy_cache = store.cache / "ivy"
    (store.cache / "jars").mkdir(parents=True, exist_ok=True)
    for stale in store.cache.glob("jars/.new-*"):  # left by a killed fetch; the lock says nobody is at it
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=store.cache / "jars", prefix=".new-") as temporary:
        fresh = Path(temporary) / "jars"
        fresh.mkdir()
        expected = len(store.sums()) if store.sums_file.exists() else 0
        resolve(settings, store.ivy_file, fresh, ivy_cache, expected)
        # Ivy's own cache serves to go on after a broken download. Once all came it only doubles the space, and if
        # what came is wrong it would come again.
        shutil.rmtree(ivy_cache)
        yield fresh


def _put(fresh: Path, folder: Path) -> None:
    """Put verified jars in place with one rename, in place of what may be broken there."""
    sizes = "".join(f"{path.stat().st_size} {path.relative_to(fresh).as_posix()}\n" for path in _found(fresh))
    (fresh / "sizes").write_text(sizes)
    (fresh / "users").mkdir()
    if folder.exists():
        for user in folder.glob("users/*"):
            shutil.copy(user, fresh / "users")
        folder.rename(fresh.parent / "broken")
    fresh.rename(folder)


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Wait until no other checkout changes the cache."""
    waits = partial(print, "Another checkout is fetching jars; waiting for it ...", flush=True)
    with exclusive(cache / "lock", waits):
        yield


def _mark_user(folder: Path) -> None:
    """Note that this checkout uses these jars, so that `make purge` of another one leaves them."""
    mark = folder / "users" / _user()
    with suppress(PermissionError):  # a cache filled by an administrator may be read-only
        if not mark.exists():
            mark.write_text(str(ROOT))


def _user() -> str:
    return hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]


def _found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.parent.name != "users")


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(arguments: list[str]) -> int:
    """Fetch, record or remove, and explain a failure without a traceback."""
    try:
        settings = load_settings()
        if arguments == ["--record"]:
            print(f"Recorded {record(settings)} jars in {SUMS_FILE}")
        elif arguments == ["--remove"]:
            remove(settings)
        elif arguments:
            raise LakehouseError(f"Unknown arguments {arguments}.", "Allowed: nothing, --record, --remove.")
        else:
            fetch(settings)
    except LakehouseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
