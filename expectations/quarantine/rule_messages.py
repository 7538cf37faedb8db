"""Rule messages: a rule of a rule file or of a topic's schema -> a sentence for people."""

from config.declarations import landed_tables
from config.rules import rules

# Rules of every topic, whatever its schema.
_EVERY_TOPIC = {
    "no_value": "The value is empty or null.",
    "not_utf8": "The value is not valid UTF-8, or it has half of a surrogate pair.",
    "not_json": "The value is not a JSON object, or it is truncated.",
    "ambiguous_json": "A key occurs twice, or text follows the JSON object.",
    "arrival_time_implausible": "The record's timestamp is ahead of the clock, too old, or before the year 2000.",
    "event_time_ahead": "The event time is further ahead of the arrival time than the topic allows: a wrong clock.",
    "event_time_too_old": "The event time is further behind the arrival time than the topic allows.",
    "key_differs": "The record's key is not the value of the topic's key field.",
    "set_aside": "Landing could not process it; an operator set it aside with `lakehouse stream set-aside`.",
    "event_id_reused": "The event id belongs to another event.",
}
_FIELD_SUFFIXES = {
    "_missing": "{} is required but missing.",
    "_type": "{} has the wrong type.",
    "_unknown": "{} has a value that the topic does not list.",
}


def rule_message(topic: str, rule: str) -> str:
    """Return the message of a rule that records of a topic can break."""
    for table in landed_tables():
        for each in rules(table.name) if table.topic == topic else ():
            if each.name == rule:
                return each.description
    for suffix, message in _FIELD_SUFFIXES.items():
        if rule.endswith(suffix):
            return message.format(rule.removesuffix(suffix))
    return _EVERY_TOPIC.get(rule, "This rule no longer exists.")
