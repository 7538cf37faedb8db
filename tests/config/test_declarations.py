"""Declarations: valid files load, and an error names the file, the key and the nearest valid name."""

import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from config.declarations import TABLES, TOPICS, landed_tables, table_named, tables, topic_named, topics
from config.errors import LakehouseError


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """Copy the declarations, so that a test can break them."""
    shutil.copytree(TOPICS, tmp_path / "topics")
    shutil.copytree(TABLES, tmp_path / "tables")
    return tmp_path


def refused(declared: Path, file: str, old: str, new: str) -> str:
    """Break a file and return the error message."""
    path = declared / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(LakehouseError) as error:
        topics(declared / "topics")
        tables(declared / "tables", declared / "topics")
    assert str(path) in error.value.problem
    return error.value.problem


def test_every_file_declares_what_it_is_named_after() -> None:
    assert set(topics()) == {file.stem for file in TOPICS.glob("*.yaml")}
    assert set(tables()) == {file.stem for file in TABLES.glob("[a-z]*.yaml")}
    landed = {file.stem for file in TABLES.glob("*.yaml") if re.search(r"^topic: ", file.read_text(), re.MULTILINE)}
    assert {table.name for table in landed_tables()} == landed
    assert {"silver.clicks", "silver.orders", "silver.payments", "silver.users"} <= landed


def test_the_payload_of_users_is_typed_as_declared() -> None:
    row = "struct<`tier`: string, `country`: string, `email`: string>"
    assert topic_named("users").payload_ddl == (
        "`event_id` string, `type` string, `event_time` timestamp, `schema_version` bigint, "
        f"`user_id` string, `op` string, `before` {row}, `after` {row}"
    )


@pytest.mark.parametrize("name", sorted(topics()))
def test_every_topic_is_fit_for_kafka_and_spark(name: str) -> None:
    topic = topics()[name]
    assert topic.payload_ddl
    assert topic.types
    assert topic.key is None or topic.key in topic.events["properties"]
    assert set(topic.retention) == {"retention.ms", "retention.bytes"}


def test_durations_and_retention_are_read_in_words(declared: Path) -> None:
    file = declared / "topics" / "clicks.yaml"
    values = yaml.safe_load(file.read_text())
    values["lateness"] = {"allowance": "1 hour", "max_clock_ahead": "30 seconds"}
    for said, kept in (
        ("7 days", {"retention.ms": "604800000", "retention.bytes": "-1"}),
        ("1 GiB", {"retention.ms": "-1", "retention.bytes": "1073741824"}),
        ("7 days and 1 GiB", {"retention.ms": "604800000", "retention.bytes": "1073741824"}),
        ("forever", {"retention.ms": "-1", "retention.bytes": "-1"}),
    ):
        file.write_text(yaml.safe_dump(values | {"retention": said}))
        topics.cache_clear()
        topic = topics(declared / "topics")["clicks"]
        assert topic.retention == kept
        assert topic.lateness.allowance == timedelta(hours=1)
        assert topic.lateness.max_clock_ahead == timedelta(seconds=30)
    assert topic_named("users").lateness.allowance is None


def test_a_landed_table_has_the_columns_of_every_landed_table() -> None:
    landed = list(yaml.safe_load((TABLES / "_landed.yaml").read_text())["columns"])
    for table in landed_tables():
        assert list(table.columns)[-len(landed) :] == landed
    assert table_named("silver.clicks").partitioned_by == ["event_date"]
    assert table_named("silver.users").partitioned_by == []


@pytest.mark.parametrize(
    ("file", "old", "new", "key", "hint"),
    [
        ("topics/clicks.yaml", "partitions: 4", "partition: 4", "unknown key 'partition'", "'partitions'?"),
        ("topics/clicks.yaml", "partitions: 4", "partitions: 0", "partitions:", "greater than or equal to 1"),
        ("topics/clicks.yaml", "allowance: 10 minutes", "allowance: 10 mins", "lateness.allowance:", "'10 minutes'"),
        ("topics/clicks.yaml", "allowance:", "alowance:", "'lateness.alowance'", "did you mean 'allowance'?"),
        ("topics/clicks.yaml", "retention: forever", "retention: 7 weeks", "retention:", "'7 days'"),
        (
            "topics/clicks.yaml",
            "retention: forever",
            "retention: 7 days and 8 days",
            "retention:",
            "'7 days and 1 GiB'",
        ),
        ("topics/clicks.yaml", "archived: true", "archived: maybe", "archived:", "valid boolean"),
        ("tables/silver.users.yaml", "topic: users", "topic: user", "topic:", "did you mean 'users'?"),
        ("tables/silver.users.yaml", "key: [event_id,", "key: [evnt_id,", "key:", "did you mean 'event_id'?"),
        ("tables/silver.users.yaml", "from: after.tier", "from: after.teir", "columns:", "did you mean 'after.tier'?"),
        ("tables/silver.users.yaml", "  op: {", "  oops: {", "columns: there is no 'oops'", "'op'"),
        ("tables/silver.users.yaml", "versioned_by: user_id", "versioned_by: usr_id", "versioned_by:", "'user_id'?"),
        ("tables/silver.users.yaml", "partitioned_by: []", "partitioned_by: [tear]", "partitioned_by:", "'tier'?"),
        ("tables/silver.users.yaml", "versioned_by", "versionedby", "unknown key 'versionedby'", "'versioned_by'?"),
        ("tables/silver.users.yaml", "{type: string, description: who}", "string", "columns.user_id:", "dictionary"),
        ("tables/silver.users.yaml", "op: {type:", "op: {tpye:", "'columns.op.tpye'", "did you mean 'type'?"),
        ("tables/silver.users.yaml", "topic: users", "topic: [users]", "topic:", "valid string"),
        ("tables/bronze.events.yaml", "columns:", "columns: [topic]\ncolums:", "columns:", "dictionary"),
    ],
)
def test_a_mistake_names_file_key_and_what_was_meant(
    declared: Path, file: str, old: str, new: str, key: str, hint: str
) -> None:
    message = refused(declared, file, old, new)
    assert key in message
    assert hint in message


@pytest.mark.parametrize("text", ["a: b: c", "- a", "word", ""])
def test_a_file_that_declares_nothing_is_named(declared: Path, text: str) -> None:
    (declared / "topics" / "clicks.yaml").write_text(text)
    with pytest.raises(LakehouseError, match=r"clicks\.yaml"):
        topics(declared / "topics")


def test_a_table_in_no_layer_is_refused(declared: Path) -> None:
    (declared / "tables" / "silver.users.yaml").rename(declared / "tables" / "sliver.users.yaml")
    with pytest.raises(LakehouseError, match=r"sliver\.users\.yaml: name: .*silver"):
        tables(declared / "tables", declared / "topics")


def test_asking_for_what_is_not_declared_suggests_what_is() -> None:
    with pytest.raises(LakehouseError, match=r"'silver\.click': did you mean 'silver\.clicks'"):
        table_named("silver.click")
    with pytest.raises(LakehouseError, match=r"'payment': did you mean 'payments'"):
        topic_named("payment")


def test_a_renamed_key_is_answered_with_its_new_name(tmp_path: Path) -> None:
    declared = yaml.safe_load((TOPICS / "clicks.yaml").read_text())
    declared["lateness"]["ahead"] = declared["lateness"].pop("max_clock_ahead")
    (tmp_path / "clicks.yaml").write_text(yaml.safe_dump(declared))
    with pytest.raises(LakehouseError, match=r"unknown key 'lateness\.ahead': it is now called 'max_clock_ahead'"):
        topics(tmp_path)
