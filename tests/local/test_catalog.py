"""The embedded catalog: one server a home, on loopback, that keeps what it has and harms nobody."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from config.spark import environment, session
from local.background import command_line
from local.catalog import Catalog


@contextmanager
def running(settings: Settings) -> Iterator[Catalog]:
    """Give a catalog, and see to it that none is left behind."""
    catalog = Catalog(settings)
    try:
        yield catalog
    finally:
        catalog.stop()


def hive_site(settings: Settings) -> Path:
    return Path(environment(settings)["SPARK_CONF_DIR"]) / "hive-site.xml"


def test_what_never_ran_is_not_running_and_leaves_nothing(fresh_home: Settings) -> None:
    assert not Catalog(fresh_home).status().running
    assert not Catalog(fresh_home).stop().running
    assert not fresh_home.home.exists()


@pytest.mark.jvm
def test_it_starts_once_answers_on_loopback_and_comes_back_at_the_same_port(fresh_home: Settings) -> None:
    with running(fresh_home) as catalog:
        first = catalog.start()
        assert first.running and first.port
        assert catalog.start() == first
        socket.create_connection(("127.0.0.1", first.port)).close()
        assert "-h 127.0.0.1" in command_line(first.pid or 0)
        assert f"jdbc:derby://127.0.0.1:{first.port}/metastore" in hive_site(fresh_home).read_text()
        assert catalog.stop() == first
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first.port))
        assert catalog.start().port == first.port


def test_a_process_that_was_given_the_same_id_is_left_alone(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: killed.append(pid))
    (fresh_home.home / "catalog").mkdir(parents=True)
    (fresh_home.home / "catalog" / "pid").write_text(str(os.getpid()))
    assert not Catalog(fresh_home).status().running
    assert not Catalog(fresh_home).stop().running
    assert killed == []


def test_one_that_cannot_start_is_told_with_its_last_words(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "command", lambda self, port: [sys.executable, "-c", "raise SystemExit('no room')"])
    with running(fresh_home) as catalog, pytest.raises(LakehouseError, match="no room") as error:
        catalog.start()
    assert str(catalog.log) in error.value.hint
    assert not catalog.status().running


def test_a_port_that_is_taken_is_told(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("LAKEHOUSE_CATALOG__PORT", str(other.getsockname()[1]))
        with running(load_settings()) as catalog, pytest.raises(LakehouseError, match="taken by another program"):
            catalog.start()


def test_a_session_without_a_catalog_does_not_make_one_of_its_own(fresh_home: Settings) -> None:
    with pytest.raises(LakehouseError, match="never been started") as error:
        session(fresh_home, "too early", catalog=True)
    assert "lakehouse catalog start" in error.value.hint
    assert not hive_site(fresh_home).exists()


def test_an_external_metastore_takes_its_place(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_CATALOG__METASTORE", "thrift://metastore.example:9083")
    external = load_settings()
    assert "external metastore" in Catalog(external).start().note
    assert not (fresh_home.home / "catalog").exists()
    assert "thrift://metastore.example:9083" in hive_site(external).read_text()
