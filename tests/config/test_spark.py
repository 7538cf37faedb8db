"""The session: it has the settings in any process, uses loopback only, and needs no network."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from config.settings import Settings, load_settings
from config.spark import environment
from local.broker import Broker

NO_UNSHARE = "the system does not let this user take the network away (unshare -n)"
ON_ITS_OWN = """
import sys
from config.settings import load_settings
from config.spark import session
spark = session(load_settings(), "alone")
print(spark.range(3).count(), spark.sparkContext.uiWebUrl, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Alone:
    """Start a session in its own process, without a network where the system can remove it."""

    process: subprocess.Popen[str]
    said: str
    home: Path


def defaults(environ: dict[str, str]) -> dict[str, str]:
    """Read the rendered spark-defaults.conf."""
    lines = (Path(environ["SPARK_CONF_DIR"]) / "spark-defaults.conf").read_text().splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def can_unshare() -> bool:
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], check=False).returncode == 0


def family(root: int) -> set[int]:
    """Find a process and all its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended in the meantime
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(root: int) -> set[tuple[str, int]]:
    """List the addresses and ports on which a process and its descendants listen."""
    sockets = set()
    for pid in family(root):
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(descriptor.readlink()))
            except FileNotFoundError:
                continue  # closed in the meantime
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{root}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                found.add((readable(address), int(port, 16)))
    return found


def readable(address: str) -> str:
    """Read an address of /proc/net: hexadecimal, its 32-bit words in the machine's order."""
    words = [int(address[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(address), 8)]
    found = ip_address(b"".join(words))
    return str(found.ipv4_mapped if isinstance(found, IPv6Address) and found.ipv4_mapped else found)


@pytest.fixture(scope="module")
def alone(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """Start once for several tests: with the UI, without the network, with spaces in the path of the home."""
    home = tmp_path_factory.mktemp("alone") / "a home with blanks"
    environ = {**os.environ, "LAKEHOUSE_HOME": str(home), "LAKEHOUSE_SPARK__UI": "true"}
    start = [sys.executable, "-c", ON_ITS_OWN]
    if can_unshare():
        start = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *start]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        start, cwd=home.parent, text=True, env=environ, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline()
        if not said:
            pytest.fail(process.stderr.read())
        yield Alone(process, said, home)


def test_what_is_rendered_carries_the_settings(settings: Settings) -> None:
    rendered = defaults(environment(settings))
    assert rendered["spark.master"] == "local[2]"
    assert rendered["spark.driver.memory"] == "2g"
    assert rendered["spark.sql.shuffle.partitions"] == "2"
    assert rendered["spark.ui.enabled"] == "false"
    assert rendered["spark.sql.warehouse.dir"] == settings.warehouse
    assert not [line for line in rendered.values() if "{{" in line]


def test_a_cluster_is_named_as_given(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK__MASTER", "spark://example:7077")
    assert defaults(environment(load_settings()))["spark.master"] == "spark://example:7077"


def test_a_home_with_blanks_is_rendered_whole(fresh_home: Settings) -> None:
    assert " " in str(fresh_home.home)
    rendered = defaults(environment(fresh_home))
    assert rendered["spark.local.dir"] == str(fresh_home.home / "tmp")
    assert rendered["spark.sql.warehouse.dir"] == fresh_home.warehouse
    assert f'-Djava.io.tmpdir="{fresh_home.home / "tmp"}"' in rendered["spark.driver.extraJavaOptions"]


def test_rendering_again_changes_nothing(fresh_home: Settings) -> None:
    conf = Path(environment(fresh_home)["SPARK_CONF_DIR"])
    before = {file: file.stat().st_mtime_ns for file in conf.iterdir()}
    environment(fresh_home)
    assert {file: file.stat().st_mtime_ns for file in conf.iterdir()} == before


def test_the_session_runs_with_what_is_rendered(spark: SparkSession, settings: Settings) -> None:
    rendered = defaults(environment(settings))
    for key in ("spark.driver.extraJavaOptions", "spark.sql.warehouse.dir"):  # Spark puts something before ours
        assert (spark.conf.get(key) or "").endswith(rendered.pop(key))
    assert {key: spark.conf.get(key) for key in rendered} == rendered


def test_times_are_utc_wherever_the_machine_stands(spark: SparkSession) -> None:
    row = spark.sql("select cast(timestamp'2025-07-01 12:00:00' as bigint) as seconds").collect()[0]
    assert row["seconds"] == 1_751_371_200


def test_delta_tables_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "a table")
    spark.range(1).write.format("delta").save(path)
    assert spark.read.format("delta").load(path).count() == 1
    assert (tmp_path / "a table" / "_delta_log").is_dir()


def test_session_and_broker_listen_on_loopback_only(spark: SparkSession, broker: Broker) -> None:
    found = listening(os.getpid())
    driver = int(spark.conf.get("spark.driver.port") or 0)
    assert {("127.0.0.1", driver), ("127.0.0.1", broker.status().port)} <= found
    assert not {place for place in found if not ip_address(place[0]).is_loopback}


@pytest.mark.jvm
def test_the_ui_listens_on_loopback_only(alone: Alone) -> None:
    url = alone.said.split()[1]
    found = listening(alone.process.pid)
    assert url.startswith("http://127.0.0.1:")
    assert ("127.0.0.1", int(url.rpartition(":")[2])) in found
    assert not {place for place in found if not ip_address(place[0]).is_loopback}


@pytest.mark.jvm
def test_a_session_starts_and_works_without_a_network(alone: Alone) -> None:
    if not can_unshare():
        pytest.skip(NO_UNSHARE)
    devices = Path(f"/proc/{alone.process.pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    assert alone.said.split()[0] == "3"


@pytest.mark.jvm
def test_a_home_with_blanks_keeps_all_that_a_session_writes(alone: Alone) -> None:
    assert alone.said.split()[0] == "3"
    assert {path.name for path in alone.home.parent.iterdir()} == {alone.home.name}
    assert (alone.home / "logs" / "spark.log").exists()
