"""Why a record was refused, in words: the sentence of each rule, those of rule files and those of a topic's schema."""

from config.declarations import landed_tables
from config.rules import rules

# Of every topic, whatever its form.
_ALWAYS = {
    "no_value": "The value is empty or null.",
    "not_utf8": "The bytes are no text.",
    "not_json": "It is not a JSON object, or it is cut off.",
    "ambiguous_json": "A key is there twice, or something follows the object.",
    "event_time_ahead": "The event lies further ahead of its arrival than its topic allows: a wrong clock.",
    "key_differs": "The record's key is not the value of the topic's key field.",
    "event_id_reused": "The id belongs to another event.",
}
_OF_A_FIELD = {
    "_missing": "{} is required, and not there.",
    "_type": "{} is there, but of another type.",
    "_unknown": "{} has a value that the topic does not list.",
}


def says(topic: str, rule: str) -> str:
    """Give the sentence of a rule that records of a topic can break."""
    for table in landed_tables():
        for each in rules(table.name) if table.topic == topic else ():
            if each.name == rule:
                return each.description
    for ending, sentence in _OF_A_FIELD.items():
        if rule.endswith(ending):
            return sentence.format(rule.removesuffix(ending))
    return _ALWAYS.get(rule, "A rule that is no longer there.")
