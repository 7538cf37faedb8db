"""Kafka options: addresses are used as given, and the password goes to Kafka and nowhere else."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from config.declarations import topics
from config.errors import LakehouseError
from config.kafka import (
    begin_offsets,
    end_offsets,
    ensure_topics,
    python_options,
    servers,
    spark_options,
    spark_source_options,
    topic_ids,
)
from config.settings import Settings, load_settings

SECRET = "hunter2"
NOBODY = "127.0.0.1:1"  # port 1 needs root and is unused: nothing listens


@pytest.fixture
def secured(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", NOBODY)
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SASL_MECHANISM", "SCRAM-SHA-512")
    monkeypatch.setenv("LAKEHOUSE_KAFKA__USERNAME", "shop")
    monkeypatch.setenv("LAKEHOUSE_KAFKA__PASSWORD", SECRET)
    return load_settings()


def test_an_external_kafka_is_used_as_given(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", "one.example:9092,two.example:9093")
    external = load_settings()
    assert servers(external) == "one.example:9092,two.example:9093"
    assert python_options(external)["bootstrap_servers"] == ["one.example:9092", "two.example:9093"]
    assert spark_options(external)["kafka.bootstrap.servers"] == "one.example:9092,two.example:9093"


def test_spark_reads_what_is_committed_and_waits_for_nothing(secured: Settings) -> None:
    options = spark_source_options(secured)
    assert options.items() >= spark_options(secured).items()
    assert options["kafka.isolation.level"] == "read_committed"
    # The default, half a second, would delay each partition of each micro-batch (docs/decisions/0021).
    assert int(options["kafka.fetch.max.wait.ms"]) <= 50


def test_the_embedded_broker_is_found_where_it_was_started(fresh_home: Settings) -> None:
    (fresh_home.home / "broker").mkdir(parents=True)
    (fresh_home.home / "broker" / "port").write_text("4711")
    assert servers(fresh_home) == "127.0.0.1:4711"


def test_a_broker_that_was_never_started_is_an_error_with_the_command(fresh_home: Settings) -> None:
    for reach in (servers, python_options, spark_options, ensure_topics):
        with pytest.raises(LakehouseError, match="never been started") as error:
            reach(fresh_home)
        assert error.value.hint == "lakehouse broker start"


def test_without_sasl_no_secret_is_asked_for(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", "a:9092")
    assert not [key for key in {**python_options(load_settings()), **spark_options(load_settings())} if "sasl" in key]


def test_the_password_reaches_both_kinds_of_clients(secured: Settings) -> None:
    assert python_options(secured)["sasl_plain_password"] == SECRET
    assert f'username="shop" password="{SECRET}";' in spark_options(secured)["kafka.sasl.jaas.config"]
    assert "ScramLoginModule" in spark_options(secured)["kafka.sasl.jaas.config"]


def test_the_password_may_stand_in_a_file(secured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    (tmp_path / "password").chmod(0o600)
    monkeypatch.delenv("LAKEHOUSE_KAFKA__PASSWORD")
    monkeypatch.setenv("LAKEHOUSE_KAFKA__PASSWORD_FILE", str(tmp_path / "password"))
    assert python_options(load_settings())["sasl_plain_password"] == SECRET


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_password_file_that_others_can_open_is_refused(
    secured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    (tmp_path / "password").chmod(mode)
    monkeypatch.delenv("LAKEHOUSE_KAFKA__PASSWORD")
    monkeypatch.setenv("LAKEHOUSE_KAFKA__PASSWORD_FILE", str(tmp_path / "password"))
    with pytest.raises(LakehouseError, match="Others can read") as error:
        python_options(load_settings())
    assert error.value.hint == f"chmod 600 '{tmp_path / 'password'}'"


def test_a_missing_password_is_an_error_with_both_ways_to_give_it(
    secured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEHOUSE_KAFKA__PASSWORD")
    with pytest.raises(LakehouseError) as error:
        python_options(load_settings())
    assert "LAKEHOUSE_KAFKA__PASSWORD" in error.value.hint
    assert "password_file" in error.value.hint


def test_a_missing_password_file_is_named(secured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEHOUSE_KAFKA__PASSWORD")
    monkeypatch.setenv("LAKEHOUSE_KAFKA__PASSWORD_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(LakehouseError, match="nowhere"):
        python_options(load_settings())


def test_a_log_that_does_not_answer_is_reported_without_the_password(
    secured: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {**python_options(secured), "bootstrap_timeout_ms": 200}
    monkeypatch.setattr("config.kafka.python_options", lambda _settings: options)
    with pytest.raises(LakehouseError) as error:
        end_offsets(secured, ["clicks"])
    assert f"Kafka at {NOBODY} does not answer" in error.value.problem
    assert "kafka.servers" in error.value.hint
    assert SECRET not in str(error.value) + "".join(capfd.readouterr())


def test_a_query_that_fails_does_not_print_the_password(
    secured: Settings, settings: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    impatient = {"kafka.default.api.timeout.ms": 300, "kafka.request.timeout.ms": 200, "fetchOffset.numRetries": 0}
    stream = spark.readStream.format("kafka").options(**spark_options(secured), **impatient).option("subscribe", "a")
    query = stream.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException) as error:
        query.awaitTermination()
    assert "Logical Plan" in str(error.value)
    assert SECRET not in str(error.value)
    assert SECRET not in (settings.home / "logs" / "spark.log").read_text()


def test_offsets_are_given_for_every_partition_of_the_declared_topics(settings: Settings, broker: object) -> None:
    places = {(topic.name, partition) for topic in topics().values() for partition in range(topic.partitions)}
    first, last = begin_offsets(settings, topics()), end_offsets(settings, topics())
    assert set(first) == set(last) == places
    assert all(first[place] <= last[place] for place in places)
    assert ensure_topics(settings) == []


def test_a_topic_that_does_not_exist_has_no_id(settings: Settings, broker: object) -> None:
    assert topic_ids(settings, ["clicks", "no_such_topic"]).keys() == {"clicks"}
