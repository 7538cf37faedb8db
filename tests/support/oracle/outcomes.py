"""Outcomes: the typed tables -> for each record quarantined, late, duplicate or silver, the first that fits."""

from oracle.topics import FORMS

_EVENTS = "\n    union all\n    ".join(
    f"""select '{topic}' as topic, "partition", "offset", event_id, event_time, content from {topic} where valid"""
    for topic in FORMS
)

COPIES = f"""
create temp table copies as
with events as (
    {_EVENTS}
),
identified as (
    select *, epoch_ms(event_time) // 3600000 as hour
    from events
),
-- Few events come again: find them by a number first, and look only at these by their names.
recurring as (
    select hash(topic, event_id, hour) as number
    from identified
    group by number
    having count(*) > 1
),
ordered as (
    select
        *,
        first_value("partition") over log as first_partition,
        first_value("offset") over log as first_offset,
        first_value(content) over log as first_content
    from identified
    where hash(topic, event_id, hour) in (from recurring)
    window log as (partition by topic, event_id, hour order by "partition", "offset")
)
select topic, "partition", "offset", first_partition, first_offset, content <> first_content as reused
from ordered
where ("partition", "offset") <> (first_partition, first_offset)
"""


def outcome_views(topic: str) -> str:
    """Return the SQL views of a topic: records with their outcomes, those of silver, and late ones without copies."""
    late = "arrival_time - event_time > interval 10 minutes" if FORMS[topic].late else "false"
    return f"""
create temp view classified_{topic} as
select
    t.*,
    '{topic}' as topic,
    c.first_partition,
    c.first_offset,
    case
        when not valid or coalesce(c.reused, false) then 'quarantined'
        when getvariable('late_counts') and {late} then 'late'
        when c.first_offset is not null then 'duplicate'
        else 'silver'
    end as outcome
from {topic} t
left join copies c on c.topic = '{topic}' and c."partition" = t."partition" and c."offset" = t."offset";

create temp view silver_{topic} as from classified_{topic} where outcome = 'silver';

create temp view late_{topic} as from classified_{topic} where outcome = 'late' and first_offset is null;
"""


OUTCOMES = "create temp view outcomes as\n" + "\nunion all\n".join(
    f"""select topic, "partition", "offset", outcome, first_partition, first_offset, event_id, event_time, arrival_time
from classified_{topic}"""
    for topic in FORMS
)
