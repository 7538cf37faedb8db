"""Files of ours that are damaged: each is an error that names it and the way out, and the way out works."""

import pytest

from config.files import DamagedFileError
from config.settings import Settings
from expectations import ledger_proof
from lake import catalog, generations
from lake.location import table_location
from operations.imports.position import Position, read_position, write_position
from streaming import set_aside
from streaming.checkpoint import last_checkpoint
from streaming.job import job_named
from streaming.rebuild import remove_unserved
from streaming.tries import Failure, count_failure, forget_failures, last_failure

DAMAGED = pytest.mark.parametrize("content", [b"", b'{"topic', b"[7]", b"{}", b"null", b"\xff", b"[" * 100_000])


@DAMAGED
def test_a_damaged_list_of_records_set_aside_is_no_empty_one(fresh_home: Settings, content: bytes) -> None:
    set_aside.set_aside(fresh_home, [("clicks", 0, 17)], "overflow")
    file = fresh_home.home / "set_aside.json"
    file.write_bytes(content)
    for read in (set_aside.active, lambda settings: set_aside.set_aside(settings, [("clicks", 0, 18)], "again")):
        with pytest.raises(DamagedFileError, match=str(file)) as error:
            read(fresh_home)
    assert file.read_bytes() == content
    (written_again,) = (line for line in error.value.hint.splitlines() if line.startswith("["))
    file.write_text(written_again)
    assert [each.origin for each in set_aside.active(fresh_home)] == [("clicks", 0, 1234)]


@DAMAGED
def test_a_damaged_count_of_tries_is_named_and_forgotten_by_a_retry(fresh_home: Settings, content: bytes) -> None:
    checkpoint = last_checkpoint(job_named("landing"), fresh_home)
    count_failure(checkpoint, 1, ValueError("broken"))
    (checkpoint.location.parent / "e1.tries.json").write(content)
    with pytest.raises(DamagedFileError, match=r"e1\.tries\.json") as error:
        last_failure(checkpoint)
    assert error.value.hint.startswith("lakehouse stream run landing --retry")
    forget_failures(checkpoint)
    assert last_failure(checkpoint) is None
    count_failure(checkpoint, 1, ValueError("broken"))
    assert last_failure(checkpoint) == Failure(1, 1, "ValueError: broken")


@DAMAGED
def test_a_damaged_proof_of_the_ledger_is_named(fresh_home: Settings, content: bytes) -> None:
    file = fresh_home.home / "ledger_proofs" / "g1.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(DamagedFileError, match=str(file)) as error:
        ledger_proof.load(fresh_home, 1)
    assert error.value.hint.startswith("lakehouse check ledger --full")


@DAMAGED
def test_a_damaged_position_of_an_import_is_named(fresh_home: Settings, content: bytes) -> None:
    write_position(fresh_home, "a1", Position(10, 5, 3))
    file = fresh_home.home / "imports" / "a1.json"
    file.write_bytes(content)
    with pytest.raises(DamagedFileError, match=str(file)) as error:
        read_position(fresh_home, "a1")
    names = ('"records": ', '"earliest_ms": ', '"sent": ')
    assert all(name in error.value.hint for name in names)
    file.write_text("{" + ", ".join(f"{name}{value}" for name, value in zip(names, (10, 5, 2), strict=True)) + "}")
    assert read_position(fresh_home, "a1") == Position(10, 5, 2)


@DAMAGED
def test_a_reset_whose_record_is_damaged_is_removed_with_what_it_built(
    fresh_home: Settings, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "live", lambda _: {"gold.sessions": 1, "gold.trending": 3})
    built, served = (table_location(fresh_home, *each) for each in (("gold.sessions", 2), ("gold.trending", 3)))
    for table in (built, served):
        (table / "part-0.parquet").write("rows")
    (fresh_home.home / "resets" / "g3").mkdir(parents=True)
    file = fresh_home.home / "resets" / "g2" / "reset.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    remove_unserved(fresh_home)
    assert not file.parent.exists()
    assert not built.exists()
    assert served.exists()


@DAMAGED
def test_a_damaged_register_of_the_catalog_is_written_again(fresh_home: Settings, content: bytes) -> None:
    file = fresh_home.home / "catalog" / "views.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    assert catalog.in_use(fresh_home)
    assert catalog._registered(fresh_home) == {}
