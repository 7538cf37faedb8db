"""Jars: all have their recorded checksums or none is used, and a failed download explains why."""

import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from config import ivy
from config import jars as module
from config.errors import LakehouseError
from config.ivy import error_lines, mirror_settings
from config.jars import Store, check, fetch, jars, remove, verify
from config.settings import Settings, load_settings


@pytest.fixture(scope="module")
def real() -> Settings:
    """Return the settings of this checkout, whose jars `make setup` has fetched."""
    return load_settings()


@pytest.fixture
def copied(real: Settings, tmp_path: Path) -> Settings:
    """Copy the cache, so that a test can break it; the jars are links: replace them, do not write to them."""
    folder = Store(real.cache).folder
    shutil.copytree(folder, tmp_path / "cache" / "jars" / folder.name, copy_function=link)
    return settings(tmp_path / "cache")


def link(source: str, target: str) -> None:
    Path(target).symlink_to(source)


def settings(cache: Path, ivy_settings: Path | None = None, maven_mirror: str | None = None) -> Settings:
    return Settings.model_construct(cache=cache, ivy_settings=ivy_settings, maven_mirror=maven_mirror)


def one_jar(cache: Settings) -> Path:
    return next((Store(cache.cache).folder / "spark").glob("delta-storage-*.jar"))


def replace(jar: Path, content: bytes) -> None:
    jar.unlink()
    jar.write_bytes(content)


def test_the_confs_hold_what_spark_and_the_broker_need(real: Settings):
    spark, broker = ([jar.name for jar in jars(conf, real)] for conf in ("spark", "broker"))
    assert "kafka-clients-3.9.1.jar" in spark and "kafka-clients-4.3.1.jar" not in spark
    assert {"kafka_2.13-4.3.1.jar", "log4j-slf4j-impl-2.25.4.jar"} <= set(broker)
    assert all(jar.is_file() for conf in ("spark", "broker", "catalog") for jar in jars(conf, real))


def test_spark_gets_no_jar_that_pyspark_ships(real: Settings):
    shipped = {jar.name.rsplit("-", 1)[0] for jar in ivy._ivy_jar().parent.glob("*.jar")}
    assert not {jar.name.rsplit("-", 1)[0] for jar in jars("spark", real)} & shipped


def test_an_unknown_conf_names_the_known_ones(real: Settings):
    with pytest.raises(LakehouseError, match="broker, catalog, spark"):
        jars("sparc", real)


def test_an_untouched_copy_is_verified(copied: Settings):
    assert verify(copied) == len(Store(copied.cache).sums()) > 50


def test_a_corrupted_jar_of_the_same_size_is_found(copied: Settings):
    jar = one_jar(copied)
    replace(jar, bytes(reversed(jar.read_bytes())))
    with pytest.raises(LakehouseError, match=f"spark/{jar.name} differs from the SHA-256") as raised:
        verify(copied)
    assert "make setup" in raised.value.hint


def test_a_truncated_jar_is_found_without_reading_it(copied: Settings):
    jar = one_jar(copied)
    replace(jar, jar.read_bytes()[:-1])
    with pytest.raises(LakehouseError, match="missing"):
        jars("spark", copied)


def test_an_unlisted_jar_is_found(copied: Settings):
    (Store(copied.cache).folder / "spark" / "stranger-1.0.jar").write_bytes(b"")
    with pytest.raises(LakehouseError, match=r"spark/stranger-1\.0\.jar is not listed"):
        verify(copied)


def test_a_missing_jar_is_found(copied: Settings):
    jar = one_jar(copied)
    jar.unlink()
    with pytest.raises(LakehouseError, match=f"spark/{jar.name} is missing"):
        verify(copied)
    with pytest.raises(LakehouseError, match="missing"):
        jars("spark", copied)


def test_all_mistakes_are_reported_at_once(tmp_path: Path):
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "a.jar").write_bytes(b"a")
    (tmp_path / "spark" / "b.jar").write_bytes(b"b")
    with pytest.raises(LakehouseError) as raised:
        check(tmp_path, {"spark/a.jar": "0" * 64, "spark/c.jar": "0" * 64})
    assert [line.split()[0] for line in raised.value.problem.splitlines()[1:]] == [
        "spark/a.jar",
        "spark/b.jar",
        "spark/c.jar",
    ]


def test_what_is_there_is_not_fetched_again(copied: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ivy, "resolve", lambda *_: pytest.fail("Ivy was started"))
    assert fetch(copied) == Store(copied.cache).folder


def give(source: Path) -> Callable[..., None]:
    """Stand in for Ivy: copy the jars of `source`."""

    def resolve(settings: Settings, ivy_file: Path, target: Path, cache: Path, expected: int) -> None:
        cache.mkdir(exist_ok=True)
        for jar in source.glob("*/*.jar"):
            (target / jar.parent.name).mkdir(exist_ok=True)
            (target / jar.parent.name / jar.name).symlink_to(jar.resolve())

    return resolve


def test_a_broken_cache_is_repaired(real: Settings, copied: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ivy, "resolve", give(Store(real.cache).folder))
    one_jar(copied).unlink()
    fetch(copied)
    assert verify(copied) > 50
    assert sorted(path.name for path in (copied.cache / "jars").iterdir()) == [Store(copied.cache).folder.name]


def test_wrong_jars_never_reach_the_cache(copied: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    jar = one_jar(copied)
    replace(jar, b"not a jar")
    monkeypatch.setattr(ivy, "resolve", give(Store(copied.cache).folder))
    empty = settings(tmp_path / "empty")
    with pytest.raises(LakehouseError, match=jar.name):
        fetch(empty)
    assert not list((empty.cache / "jars").iterdir())
    assert not (empty.cache / "ivy").exists()


def test_two_that_fetch_at_once_fetch_once(real: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = []
    bring = give(Store(real.cache).folder)

    def counted(*arguments: Any) -> None:
        runs.append(1)
        bring(*arguments)

    monkeypatch.setattr(ivy, "resolve", counted)
    empty = settings(tmp_path / "empty")
    threads = [threading.Thread(target=fetch, args=(empty,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(empty) > 50
    assert runs == [1]


def test_removing_leaves_jars_that_another_checkout_uses(copied: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path):
    folder = Store(copied.cache).folder
    shutil.rmtree(folder / "users")
    (folder / "users").mkdir()
    fetch(copied)
    other = tmp_path / "other"
    other.mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(module, "ROOT", other)
        fetch(copied)
    remove(copied)
    assert folder.exists()
    monkeypatch.setattr(module, "ROOT", other)
    remove(copied)
    assert not folder.exists()


def test_the_mirror_stands_in_for_maven_central():
    root = ElementTree.fromstring(mirror_settings("https://mirror.example/a&b/maven"))
    (resolver,) = root.findall("resolvers/*")
    assert resolver.tag == "ibiblio"
    assert resolver.attrib == {"name": "mirror", "m2compatible": "true", "root": "https://mirror.example/a&b/maven/"}
    assert [item.attrib for item in root.findall("settings")] == [{"defaultResolver": "mirror"}]


def test_a_mirror_that_refuses_is_named_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ivy, "ATTEMPTS", 1)
    with socket.socket() as closed:  # bound but not listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        address = f"http://someone:secret@127.0.0.1:{closed.getsockname()[1]}/maven"
        with pytest.raises(LakehouseError, match="could not be downloaded") as raised:
            fetch(settings(tmp_path, maven_mirror=address))
    assert "refused" in raised.value.problem.lower()
    assert "secret" not in raised.value.problem
    assert "LAKEHOUSE_MAVEN_MIRROR" in raised.value.hint
    assert not list((tmp_path / "jars").iterdir())


def test_a_missing_ivy_settings_file_is_named(tmp_path: Path):
    with pytest.raises(LakehouseError, match="no Ivy settings file"):
        fetch(settings(tmp_path, ivy_settings=tmp_path / "absent.xml"))


def test_the_last_lines_are_shown_when_none_gives_a_reason():
    assert error_lines(["one", "", "two"]) == ["  one", "  two"]
