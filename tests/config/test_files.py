"""Files in the home: a process killed while it writes a file leaves the previous content."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.files import DamagedFileError, decode, write_whole
from config.kafka import servers
from config.locks import claim, claimed_by
from config.settings import Settings
from config.spark import environment
from lake.location import Location
from local.broker import Broker
from local.payment_api.server import PaymentApi
from streaming.roles.reactor.api import address


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a folder" / "manifest.json"
    write_whole(file, "old")
    assert file.read_text() == "old"

    def die_half_way(number: int) -> None:
        os.ftruncate(number, 7)
        raise OSError("killed")

    monkeypatch.setattr(os, "fsync", die_half_way)
    with pytest.raises(OSError, match="killed"):
        write_whole(file, "new and longer")
    assert file.read_text() == "old"


def test_what_is_written_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace, link = os.fsync, Path.replace, os.link

    def synced(number: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else f"{os.fstat(number).st_size} bytes")
        fsync(number)

    monkeypatch.setattr(os, "fsync", synced)

    def named(given: Callable[[Path, Path], object]) -> Callable[[Path, Path], object]:
        def give(draft: Path, file: Path) -> object:
            done.append("named")
            return given(draft, file)

        return give

    monkeypatch.setattr(Path, "replace", named(replace))
    monkeypatch.setattr(os, "link", named(link))
    write_whole(tmp_path / "manifest.json", "three")
    assert Location(str(tmp_path / "pointer")).create("three")
    assert done == ["5 bytes", "named", "folder"] * 2


@pytest.mark.parametrize("length", range(len('{"a": [1, 2]}')))
def test_a_json_file_that_is_cut_off_anywhere_is_named_with_the_way_out(tmp_path: Path, length: int) -> None:
    file = Location(str(tmp_path / "log.json"))
    assert file.read_json("rm it") is None
    (tmp_path / "log.json").write_bytes(b'{"a": [1, 2]}'[:length])
    with pytest.raises(DamagedFileError, match=r"log\.json is damaged") as error:
        file.read_json("rm it")
    assert error.value.hint == "rm it"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00" * 20, b"[1]", b"7", b"[" * 100_000, b"null"])
def test_other_content_is_damage_too(content: bytes) -> None:
    with pytest.raises(DamagedFileError, match="progress"):
        decode(content, "progress", "")


@pytest.mark.parametrize("content", ["", "\0\0\0\0\0", "x", "0", "70000", "-1", "²"])
def test_a_port_file_that_is_damaged_is_a_message_and_the_next_start_writes_it_again(
    fresh_home: Settings, content: str
) -> None:
    for name, read in (("broker", servers), ("catalog", environment)):
        file = fresh_home.home / name / "port"
        file.parent.mkdir(parents=True)
        file.write_text(content)
        with pytest.raises(DamagedFileError, match=str(file)) as error:
            read(fresh_home)
        assert error.value.hint == f"lakehouse {name} stop, then: lakehouse {name} start"
    broker = Broker(fresh_home)
    assert not broker.status().running
    broker._port()
    assert servers(fresh_home).startswith("127.0.0.1:")


def test_the_address_of_the_payment_api_is_written_again(fresh_home: Settings) -> None:
    file = fresh_home.home / "payment-api" / "address.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"po')
    with pytest.raises(DamagedFileError, match="lakehouse payment-api"):
        address(fresh_home)
    served = PaymentApi(fresh_home)
    served.server_close()
    served.store.close()
    assert address(fresh_home) == served.address


def test_the_holder_of_a_lock_whose_content_is_cut_off_is_unknown_but_there(tmp_path: Path) -> None:
    with claim(tmp_path / "lock", "job"):
        (tmp_path / "lock").write_text('{"pid"')
        assert claimed_by(tmp_path / "lock") == {}
        with pytest.raises(LakehouseError, match="'job' is already being run"), claim(tmp_path / "lock", "job"):
            pass
