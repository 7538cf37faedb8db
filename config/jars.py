"""Jars: config/ivy.xml -> verified files in a cache that checkouts share.

`python -m config.jars` downloads missing jars with the Ivy that pyspark ships; if none is missing it uses no network.
`python -m config.jars --record` is for maintainers, after a change of ivy.xml: it resolves all jars again and rewrites
config/jars.sha256. Review the diff before committing it.
`python -m config.jars --remove` deletes the jars that only this checkout uses.
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
FETCH = "Run `make setup`: it downloads them again."


@dataclass(frozen=True)
class Store:
    """The folder with the jars of one ivy.xml and its checksums; its name depends on both files' content."""

    cache: Path
    ivy_file: Path = IVY_FILE
    sums_file: Path = SUMS_FILE

    @property
    def folder(self) -> Path:
        """The folder of the jars: one subfolder per Ivy configuration, and `sizes`, written after verification."""
        key = hashlib.sha256(self.ivy_file.read_bytes() + b"\0" + self.sums_file.read_bytes()).hexdigest()[:16]
        return self.cache / "jars" / key

    def sums(self) -> dict[str, str]:
        """Read the recorded checksums: `spark/delta-storage-4.4.0.jar` -> SHA-256."""
        lines = self.sums_file.read_text().splitlines()
        return {name: sum_ for sum_, name in (line.split(maxsplit=1) for line in lines if line)}

    def intact(self) -> bool:
        """Check that every verified jar still exists with the same size; this reads no jar."""
        try:
            sizes = [line.split(maxsplit=1) for line in (self.folder / "sizes").read_text().splitlines()]
            return all((self.folder / name).stat().st_size == int(size) for size, name in sizes)
        except FileNotFoundError:
            return False


def jars(conf: str, settings: Settings) -> list[Path]:
    """List the verified jars of a configuration of ivy.xml."""
    store = Store(settings.cache)
    if not store.intact():
        raise LakehouseError(f"Jars are missing from {store.folder}.", FETCH)
    names = [name for name in store.sums() if name.startswith(f"{conf}/")]
    if not names:
        confs = sorted({name.split("/")[0] for name in store.sums()})
        raise LakehouseError(f"There are no jars for '{conf}': config/ivy.xml has {', '.join(confs)}.")
    return [store.folder / name for name in names]


def verify(settings: Settings) -> int:
    """Read every jar and compare its checksum; return the number of jars."""
    store = Store(settings.cache)
    if not store.folder.exists():
        raise LakehouseError(f"Jars are missing from {store.folder}.", FETCH)
    check(store.folder, store.sums())
    return len(store.sums())


def fetch(settings: Settings) -> Path:
    """Download the jars into the cache if one is missing or incomplete; return their folder."""
    store = Store(settings.cache)
    if not store.intact():
        with _alone(store.cache):
            if not store.intact():  # another checkout may have downloaded them while this one waited
                with _resolved(settings, store) as fresh:
                    check(fresh, store.sums())
                    _put(fresh, store.folder)
    _mark_user(store.folder)
    return store.folder


def record_sums(settings: Settings) -> int:
    """Resolve ivy.xml again and record the checksums of its jars; return their number."""
    store = Store(settings.cache)
    with _alone(store.cache), _resolved(settings, store) as fresh:
        names = [path.relative_to(fresh).as_posix() for path in _found(fresh)]
        store.sums_file.write_text("".join(f"{_sum(fresh / name)}  {name}\n" for name in names))
        _put(fresh, store.folder)
    _mark_user(store.folder)
    return len(names)


def remove(settings: Settings) -> None:
    """Delete the jars that no other existing checkout uses, and the rest of an interrupted download."""
    if not settings.cache.exists():
        return
    with _alone(settings.cache):
        shutil.rmtree(settings.cache / "ivy", ignore_errors=True)
        for users in settings.cache.glob("jars/*/users"):
            marks = list(users.iterdir())  # none: an administrator installed these jars
            if marks and not any(mark.name != _user() and Path(mark.read_text()).exists() for mark in marks):
                shutil.rmtree(users.parent)
            else:
                (users / _user()).unlink(missing_ok=True)


def check(folder: Path, sums: dict[str, str]) -> None:
    """Compare a folder of jars with the recorded checksums: none missing, none extra, none different."""
    present = {path.relative_to(folder).as_posix(): path for path in _found(folder)}
    problems = [f"{name} is missing" for name in sums.keys() - present.keys()]
    problems += [f"{name} is not listed in config/jars.sha256" for name in present.keys() - sums.keys()]
    problems += [
        f"{name} differs from the SHA-256 in config/jars.sha256"
        for name in sums.keys() & present.keys()
        if _sum(present[name]) != sums[name]
    ]
    if problems:
        raise LakehouseError(
            "\n  ".join([f"The jars in {folder} differ from the recorded ones:", *sorted(problems)]),
            f"Delete {folder} if it still exists and run `make setup`. If it happens again, the repository or mirror "
            "serves other files than the maintainers recorded: do not use them.",
        )


@contextmanager
def _resolved(settings: Settings, store: Store) -> Iterator[Path]:
    """Download the jars into a temporary folder next to the final one; it is deleted unless it was moved there."""
    from config.ivy import resolve  # here, because a start with a full cache needs neither Rich nor Java

    ivy_cache = store.cache / "ivy"
    (store.cache / "jars").mkdir(parents=True, exist_ok=True)
    for stale in store.cache.glob("jars/.new-*"):  # left by a killed download: this process holds the lock
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=store.cache / "jars", prefix=".new-") as temporary:
        fresh = Path(temporary) / "jars"
        fresh.mkdir()
        expected = len(store.sums()) if store.sums_file.exists() else 0
        resolve(settings, store.ivy_file, fresh, ivy_cache, expected)
        # Ivy's own cache is needed only to continue an interrupted download. Afterwards it doubles the disk space,
        # and it would serve a corrupt jar again.
        shutil.rmtree(ivy_cache)
        yield fresh


def _put(fresh: Path, folder: Path) -> None:
    """Move verified jars to their folder with one rename; a corrupt folder there is replaced."""
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
    """Record that this checkout uses these jars, so that `make purge` in another one keeps them."""
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
    """Download, record or delete the jars; print a failure without a traceback."""
    try:
        settings = load_settings()
        if arguments == ["--record"]:
            print(f"Recorded {record_sums(settings)} jars in {SUMS_FILE}")
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
