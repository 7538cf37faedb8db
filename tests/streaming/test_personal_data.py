"""Personal data stop at the edge: a scan of the home finds none beyond the archive and the topics they came in."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from handmade import NOON, change
from kafka import KafkaProducer
from personal_data import leaks
from pyspark.sql import SparkSession
from raw_clicks import raw

from config.declarations import Column, Table
from config.kafka import keep_records_of_any_age, let_producers_stamp, python_options
from config.settings import Settings
from expectations.quarantine.redrive import redrive
from lake.location import Location
from lake.tables import append_once, create
from local.broker import Broker
from streaming.job import job_named
from streaming.roles.router.router import run as route
from streaming.runner import Runner

EMAIL, NAME, PHONE, IP, IP_IN_IPV6 = (
    "planted.ada@example.com",
    "Planted Brown",
    "+4915112345678",
    "203.0.113.77",
    "cb00:714d",
)
PLANTED = (EMAIL, NAME, PHONE, PHONE.strip("+"), IP, IP_IN_IPV6, "Planted")


def oddly_spelled() -> Iterator[dict[str, Any]]:
    """Plant personal data in every field of a raw click, and beside them, in every form."""
    personal = (EMAIL, NAME, PHONE, IP, int(PHONE))
    for name in (*raw(), "impression_id", "quantity"):
        for number, value in enumerate(personal):
            yield raw(**{name: [value, {"email": value}, [value], {str(value): [[value]]}, f"{value}\n"][number]})
            yield raw(**{name: value})
    yield raw(email=EMAIL, name=NAME, phone=PHONE, agent=NAME, **{EMAIL: NAME})
    yield raw(ip=IP, user_agent=f"{NAME} {EMAIL} {PHONE} {IP}")
    yield raw(ip=f"2002:{IP_IN_IPV6}::1")
    yield raw(ip=f"64:ff9b::{IP}")


def send(producer: Any, topic: str, value: bytes, key: bytes | None, headers: Any = ()) -> None:
    producer.send(topic, value, key, list(headers), timestamp_ms=int(NOON.timestamp() * 1000))


@pytest.fixture
def home(fresh_home: Settings) -> Iterator[Settings]:
    broker = Broker(fresh_home)
    broker.start()
    let_producers_stamp(fresh_home)
    keep_records_of_any_age(fresh_home, ["clicks_raw"])
    try:
        yield fresh_home
    finally:
        broker.stop()


def test_a_scan_of_the_home_finds_none_beyond_the_edge_and_the_archive(home: Settings, spark: SparkSession) -> None:
    clicks = list(oddly_spelled())
    user = change("c1", NOON, "gold", op="c")
    with closing(KafkaProducer(**python_options(home))) as producer:
        for number, click in enumerate(clicks):
            if click.get("event_id") == raw()["event_id"]:
                click["event_id"] = f"{number:032x}"
            headers = [("traceparent", EMAIL.encode()), ("simulator_id", NAME.encode()), ("cookie", IP.encode())]
            send(producer, "clicks_raw", json.dumps(click).encode(), EMAIL.encode(), headers)
        for broken in (EMAIL.encode(), json.dumps(raw(email=EMAIL))[:-1].encode(), json.dumps([NAME]).encode()):
            send(producer, "clicks_raw", broken, IP.encode())
        for event_id, fields in {"c1": {}, "c2": {"op": "planted"}, "c3": {"name": NAME}}.items():
            row = {"tier": "gold", "country": "DE", "email": EMAIL}
            value = json.dumps(user | {"event_id": event_id, "after": row} | fields).encode()
            send(producer, "users", value, user["user_id"].encode())
    _, counts = route(home, until_caught_up=True)
    assert counts.kept > 5
    assert counts.dead > 60
    Runner(home, spark).run([job_named("landing"), job_named("clicks_enriched")], until_caught_up=True)
    assert redrive(spark, home, 1).refused == 1
    assert leaks(home, PLANTED) == set()


def test_the_scan_finds_what_is_there(tmp_path: Any, settings: Settings) -> None:
    home = settings.at(tmp_path)
    rows = pa.table({"offset": [1, 2], "secret": [EMAIL, "zoe"], "open": ["a", "b"]})
    append_once(Location(str(tmp_path / "warehouse" / "silver" / "some")), rows, "test", 1)
    found = leaks(home, [EMAIL])
    assert {name.rpartition(".")[2] for name, _ in found} == {"parquet", "json"}  # Delta's log has statistics


def test_of_a_personal_column_delta_keeps_no_statistics(tmp_path: Any, spark: SparkSession) -> None:
    def column(name: str, kind: str, personal: bool = False) -> Column:
        return Column.model_validate({"type": kind, "description": "", "from": name, "personal": personal})

    columns = [column("offset", "bigint"), column("secret", "string", personal=True), column("open", "string")]
    named = {str(each.source): each for each in columns}
    table = Table(name="silver.some", description="", key=["offset"], columns=named)
    location = Location(str(tmp_path / "some"))
    create(location, table)
    append_once(location, pa.table({"offset": [1, 2], "secret": [EMAIL, "zoe"], "open": ["a", "b"]}), "test", 1)
    log = "".join(file.read_text() for file in (tmp_path / "some" / "_delta_log").glob("*.json"))
    assert EMAIL not in log
    assert '\\"open\\":\\"a\\"' in log
