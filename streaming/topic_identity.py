"""Topic identity: the ids of the topics that a job has landed, because offsets of another log mean nothing.

A topic's id is recorded when the job first sees it. A topic that was created again or is missing is an error.
"""

import json

from config.errors import LakehouseError
from config.kafka import topic_ids
from config.settings import Settings
from lake.location import Location
from streaming.job import Job

FILE = "log.json"
RESTORE = "Restore the old log, or continue with a new one in a new home: LAKEHOUSE_HOME=NEW lakehouse import-home OLD"


def ensure_same_log(job: Job, settings: Settings, folder: Location) -> None:
    """Record the topics that are new to a job; raise an error if one was created again, or is not in Kafka.

    folder: that of the job's checkpoints in its generation.
    """
    if not job.topics:
        return
    # Those of all generations: each has its own landing, and they share the archive.
    known: dict[str, str] = {}
    for generation in folder.parent.parent.children("g[0-9]*"):
        known |= _recorded(generation / job.name)
    ids = topic_ids(settings, job.topics)
    if missing := [name for name in job.topics if name not in ids]:
        raise _missing(job, missing, known, settings)
    if changed := [name for name, id_ in ids.items() if known.get(name, id_) != id_]:
        raise LakehouseError(
            f"The log is not the one '{job.name}' landed before: {', '.join(changed)} was created again.", RESTORE
        )
    recorded = _recorded(folder)
    if not ids.items() <= recorded.items():
        (folder / FILE).write(json.dumps(recorded | ids))


def _recorded(folder: Location) -> dict[str, str]:
    file = folder / FILE
    return dict(file.read_json(f"If this Kafka is the one that was landed before: rm '{file}'") or {})


def _missing(job: Job, missing: list[str], known: dict[str, str], settings: Settings) -> LakehouseError:
    if landed := [name for name in missing if name in known]:
        return LakehouseError(f"Kafka has no topic {', '.join(landed)}, which '{job.name}' has landed before.", RESTORE)
    create = "Create it in Kafka." if settings.kafka.servers else "lakehouse broker start   (creates declared topics)"
    return LakehouseError(f"Kafka has no topic {', '.join(missing)}, which '{job.name}' reads.", create)
