"""Names of the batch layer in the catalog."""

from config.settings import Settings
from lake.catalog import queries


def test_with_it_every_answer_is_merged(fresh_home: Settings) -> None:
    names = queries(fresh_home)
    gold = {name.partition(".")[2] for name in names if name.startswith("gold.")}
    assert gold == {name.partition(".")[2] for name in names if name.startswith("merged.")}
