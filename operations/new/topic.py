"""A topic -> its declaration, the silver table it lands in, its rules, and its form in the oracle of the tests."""

from pathlib import Path

from operations.new.declared import declared
from operations.new.files import Files, render
from operations.new.names import check_name, singular

ENVELOPE = ("event_id", "type", "event_time", "schema_version")


def topic(name: str, key: str | None, root: Path) -> Files:
    """Write a topic of events with a key and an amount."""
    key = key or f"{singular(name)}_id"
    check_name(name, [*declared(root).topics, *(table.partition(".")[2] for table in declared(root).tables)])
    check_name(key, [*ENVELOPE, "amount"])
    title = name.replace("_", " ").capitalize()
    return render("topic", name, {"key": key, "title": title, "event_type": f"{singular(name)}_recorded"})
