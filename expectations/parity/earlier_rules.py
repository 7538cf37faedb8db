"""Earlier rules: the schema and the rules of a topic as they were, for records that landed under them.

A home records no rules. They come from the history of what is checked out, as previous code does
(streaming/previous_code.py); what was merely fetched, or never committed, is not known.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from config import git
from config.declarations import TOPICS, topics
from config.errors import LakehouseError
from config.rule_files import FOLDER as RULES
from config.rules import rules
from config.settings import ROOT
from streaming.landing.contract import Contract

MOST = 20
"""How many earlier versions are tried, latest first."""


def earlier_contracts(contract: Contract) -> list[Contract]:
    """Return the earlier contracts of a topic with today's table, latest first; those that cannot be read are left out.

    Rules are given the columns of the table, so the table must still have them.
    """
    files = (TOPICS / f"{contract.topic.name}.yaml", RULES / f"{contract.table.name}.yaml")
    paths = [file.relative_to(ROOT).as_posix() for file in files]
    versions = [tuple(git.file_at(commit, path) for path in paths) for commit in git.commits_of(*paths)[:MOST]]
    return [found for texts in dict.fromkeys(versions) for found in _read(contract, *texts)]


def _read(contract: Contract, topic: str | None, own_rules: str | None) -> Iterator[Contract]:
    if topic is None:
        return
    with TemporaryDirectory() as folder:
        for name, text in ((contract.topic.name, topic), (contract.table.name, own_rules or "[]")):
            (Path(folder) / name).mkdir()
            (Path(folder) / name / f"{name}.yaml").write_text(text)
        try:
            schema = topics(Path(folder) / contract.topic.name)[contract.topic.name]
            own = rules(contract.table.name, Path(folder) / contract.table.name)
        except LakehouseError:
            return  # of a release with other keys, or of columns that the table no longer has
    yield Contract(schema, contract.table, tuple(rule for rule in own if rule.severity == "quarantine"))
