"""The embedded catalog: one server a home, on loopback, that keeps what it has and harms nobody."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.jars import jars
from config.metastore import password_file
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


def ij(catalog: Catalog, *statements: str) -> list[str]:
    """Run statements in Derby's SQL shell, each on its own connection if it is one; return what it answered to each."""
    java = catalog.command(0)[: catalog.command(0).index("org.apache.derby.drda.NetworkServerControl")]
    client = os.pathsep.join(map(str, jars("spark", catalog.settings)))
    java[java.index("-cp") + 1] += os.pathsep + client
    script = "".join(f"{statement};\n" for statement in statements)
    done = subprocess.run(
        [*java, "org.apache.derby.tools.ij"], input=script, capture_output=True, text=True, check=True
    )
    return done.stdout.split("ij> ")[1 : len(statements) + 1]


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


@pytest.mark.jvm
def test_nobody_runs_java_in_it_without_its_password(fresh_home: Settings) -> None:
    with running(fresh_home) as catalog:
        port = catalog.start().port
        password = password_file(fresh_home).read_text()
        url = f"jdbc:derby://127.0.0.1:{port}"
        java = "create procedure p(k varchar(9), v varchar(9)) language java parameter style java no sql external name "
        answers = ij(
            catalog,
            f"connect '{url}/metastore'",
            f"connect '{url}/metastore;user=APP;password=wrong'",
            f"connect '{url}/metastore;user=somebody;password={password}'",
            # The owner of a database may do anything in it, so nobody may create one either.
            f"connect '{url}/other;create=true'",
            f"connect '{url}/memory:other;create=true;user=somebody;password=x'",
            f"{java} 'java.lang.System.setProperty'",
            "call p('a', 'b')",
            f"connect '{url}/metastore;user=APP;password={password}'",
            "values current_user",
        )
        for refused in answers[:5]:
            assert refused.startswith("ERROR 08004"), refused
        for unconnected in answers[5:7]:
            assert unconnected.startswith("IJ ERROR: Unable to establish connection"), unconnected
        assert "ERROR" not in "".join(answers[7:])
        assert "APP" in answers[8]
        assert not (fresh_home.home / "catalog" / "other").exists()

        command = [*catalog.command(0)[:-6], "org.apache.derby.drda.NetworkServerControl", "shutdown"]
        subprocess.run([*command, "-h", "127.0.0.1", "-p", str(port)], capture_output=True, check=False)
        assert catalog.status().running
        assert password not in command_line(catalog.status().pid or 0)


@pytest.mark.jvm
def test_only_its_owner_can_read_the_password(fresh_home: Settings) -> None:
    before = os.umask(0o022)
    try:
        with running(fresh_home) as catalog:
            catalog.start()
            holders = [password_file(fresh_home), hive_site(fresh_home)]
    finally:
        os.umask(before)
    password = holders[0].read_text()
    assert len(password) >= 32
    assert [file.stat().st_mode & 0o777 for file in holders] == [0o600, 0o600]
    assert password in holders[1].read_text()
    written = [file for file in fresh_home.home.rglob("*") if file.is_file() and password.encode() in file.read_bytes()]
    assert sorted(written) == sorted(holders)
    holders[0].chmod(0o640)
    with pytest.raises(LakehouseError, match="Others can read") as error:
        environment(fresh_home)
    assert error.value.hint == f"chmod 600 '{holders[0]}'"


@pytest.mark.jvm
def test_a_database_of_an_older_release_gets_a_password_and_keeps_its_tables(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(fresh_home) as catalog:
        catalog.folder.mkdir(parents=True)
        with monkeypatch.context() as older:
            older.setattr(Catalog, "prepare", lambda self, port: None)
            port = catalog.start().port
            url = f"jdbc:derby://127.0.0.1:{port}/metastore"
            # As Hive does if its settings name no user.
            made = ij(catalog, f"connect '{url};create=true;user=APP;password=mine'", "create table t (a int)")
            assert "ERROR" not in "".join(made)
        old = catalog.status().pid
        assert catalog.start().pid != old  # an open server does not stay
        password = password_file(fresh_home).read_text()
        answers = ij(
            catalog,
            f"connect '{url};user=APP;password=mine'",
            f"connect '{url};user=APP;password={password}'",
            "select count(*) from t",
        )
    assert answers[0].startswith("ERROR 08004")
    assert "1 row selected" in answers[2]


@pytest.mark.jvm
def test_a_lost_password_is_an_error_with_the_command_that_helps(fresh_home: Settings) -> None:
    with running(fresh_home) as catalog:
        catalog.start()
        catalog.stop()
        password_file(fresh_home).unlink()
        with pytest.raises(LakehouseError, match="password is lost") as error:
            catalog.start()
        remove = error.value.hint.partition(": ")[2].partition(", then: lakehouse catalog refresh")[0]
        subprocess.run(remove, shell=True, check=True)
        assert catalog.start().running


@pytest.mark.jvm
def test_a_start_that_was_killed_is_repeated(fresh_home: Settings) -> None:
    with running(fresh_home) as catalog:
        half = catalog.folder / "metastore" / "seg0"
        half.mkdir(parents=True)
        assert catalog.start().running
        catalog.stop()
        (catalog.folder / "derby.properties").unlink()  # the user was created, and nothing else came
        assert catalog.start().running


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


def test_one_that_cannot_start_is_reported_with_the_end_of_its_log(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "command", lambda self, port: [sys.executable, "-c", "raise SystemExit('no room')"])
    with running(fresh_home) as catalog, pytest.raises(LakehouseError, match="no room") as error:
        catalog.start()
    assert str(catalog.log) in error.value.hint
    assert not catalog.status().running


def test_a_port_that_is_taken_is_named(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
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
