"""The CDS archive: specific to these jars and this Java, used by every session, and optional."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from config import jvm_cds
from config.jvm_cds import cds_archive, cds_options, class_path
from config.settings import Settings
from operations import cds_archive as maker

BLANK = "there is no archive of classes where the path of this project has a blank"
COUNT = """
from config.settings import load_settings
from config.spark import session
print(session(load_settings(), "counting").range(3).count())
"""


@pytest.mark.jvm
@pytest.mark.skipif(" " in sys.prefix, reason=BLANK)
def test_a_session_takes_most_of_its_classes_from_the_archive(fresh_home: Settings, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded.txt"
    options = f"{os.environ['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={loaded}"
    command = [sys.executable, "-c", COUNT]
    said = subprocess.run(
        command, env=os.environ | {"SPARK_SUBMIT_OPTS": options}, text=True, capture_output=True, check=True
    )
    assert said.stdout.strip() == "3"
    # The class name of a lambda contains a slash; lambdas of Scala cannot be archived.
    where = re.findall(r" org\.apache\.spark\.[^\s/]+ source: (.+)", loaded.read_text())
    assert len([place for place in where if place == "shared objects file (top)"]) > 0.9 * len(where) > 1000


def test_other_jars_have_another_archive(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "one.jar"
    jar.write_bytes(b"one")
    monkeypatch.setattr(jvm_cds, "class_path", lambda _: [jar])
    before = cds_archive(settings)
    assert cds_archive(settings) == before
    jar.write_bytes(b"another")
    assert cds_archive(settings) != before
    assert cds_options(settings) == "", "there is none for it"


def test_for_jars_in_a_path_with_a_blank_there_is_none(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_cds, "class_path", lambda _: [tmp_path / "a b" / "one.jar"])
    assert cds_archive(settings) is None
    assert cds_options(settings) == ""


def test_sparks_own_jars_come_after_ours_and_all_are_there(settings: Settings) -> None:
    names = [path.name for path in class_path(settings)]
    assert names.index("delta-storage-4.4.0.jar") < names.index("spark-core_2.13-4.1.3.jar")
    assert all(path.is_file() for path in class_path(settings))


@pytest.mark.jvm  # a Python that gives up before its JVM starts, after ten seconds of imports
def test_an_archive_that_cannot_be_made_is_reported_and_leaves_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(maker, "cds_archive", lambda _: tmp_path / "classes" / "new.jsa")
    monkeypatch.setenv("LAKEHOUSE_NO_SUCH_SETTING", "1")  # the training run fails at its start
    monkeypatch.setattr(maker, "load_settings", lambda: settings)
    maker.make()
    assert "Spark starts without it" in capsys.readouterr().err
    assert list((tmp_path / "classes").iterdir()) == []
