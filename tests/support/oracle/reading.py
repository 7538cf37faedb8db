"""Reading: records -> one table per topic, typed, each row marked valid or not; in sets, not row by row."""

from datetime import UTC, datetime, timedelta

from oracle.forms import Field, Form
from oracle.topics import FORMS

MACROS = r"""
-- DuckDB's own reader lets a trailing comma pass. A quick look clears nearly all; only the rest lose their texts, so
-- that what is found is not part of one.
create temp macro trails(json) as regexp_matches(json, ',\s*[}\]]');
create temp macro without_texts(json) as regexp_replace(json, '"([^"\\]|\\.)*"', '""', 'g');
create temp macro document(json) as case
    when not coalesce(json_valid(json), false) then null
    when not starts_with(ltrim(json, chr(32) || chr(9) || chr(10) || chr(13)), '{') then null
    when trails(json) and trails(without_texts(json)) then null
    else json
end;

create temp macro text_of(kind, json) as case when kind = 'VARCHAR' then json end;
create temp macro whole_of(kind, json) as case when kind in ('UBIGINT', 'BIGINT') then try_cast(json as bigint) end;
create temp macro object_of(kind, json) as case when kind = 'OBJECT' then true end;
-- One form only: 2026-01-05T06:00:00.000Z
create temp macro time_of(kind, json) as case
    when kind = 'VARCHAR'
        and regexp_full_match(json, '\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z')
    then try_cast(json as timestamp)
end;
"""


def typed(topic: str) -> str:
    """Return the SQL statement that parses and validates the records of a topic."""
    form = FORMS[topic]
    columns = ",\n    ".join(f"{place.kind}_of(kinds[{n}], texts[{n}]) as {name}" for n, (name, place) in _listed(form))
    return f"""
create temp table {topic} as
with texts as (
    select "partition", "offset", key, {_believed()} as arrival_time, hash(value) as content, try(decode(value)) as text
    from records
    where topic = '{topic}'
),
documents as (
    select * exclude (text), document(text) as document
    from texts
),
parsed as (
    select
        * exclude (document),
        document is not null as readable,
        json_type(document, {form.paths()}) as kinds,
        json_extract_string(document, {form.paths()}) as texts,
        list_sum(list_transform(json_keys(document, {form.objects()}), lambda keys: len(keys))) as keys
    from documents
),
typed as (
    select
        "partition", "offset", key, arrival_time, content, readable, kinds,
        keys <> list_count(kinds) as has_more,
        {columns}
    from parsed
)
select
    * exclude (key, readable, kinds),
    coalesce(readable and arrival_time is not null and key = encode({form.key}) and {_sound(form)}, false) as valid
from typed
"""


def _believed() -> str:
    """Return the SQL for when a record arrived: its timestamp, unless it is ahead of the clock or before 2000."""
    latest = datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=2)
    return f"if(arrival_time between timestamp '2000-01-01' and timestamp '{latest}', arrival_time, null)"


def looked_over(topic: str) -> str:
    """Return the SQL that rejects documents with a duplicate key at any depth, or with NaN or Infinity as a number.

    A document with exactly as many keys as known fields can have neither; only the others are checked.
    """
    return f"""
with doubtful as (
    select r."partition", r."offset", try(decode(r.value)) as document
    from records r
    join {topic} t on t."partition" = r."partition" and t."offset" = r."offset"
    where r.topic = '{topic}' and t.valid and t.has_more
),
nodes as (
    select
        "partition", "offset", node.parent, node.key,
        node.type = 'DOUBLE' and regexp_matches(node.atom::varchar, '[^-+.0-9eE]') as no_number
    from doubtful, json_tree(doubtful.document) as node
    where node.key is not null
),
refused as (
    select distinct "partition", "offset"
    from nodes
    group by "partition", "offset", parent, key
    having count(*) > 1 or bool_or(no_number)
)
update {topic} set valid = false
from refused
where {topic}."partition" = refused."partition" and {topic}."offset" = refused."offset"
"""


def _listed(form: Form) -> list[tuple[int, tuple[str, Field]]]:
    return list(enumerate(form.fields.items(), start=1))


def _sound(form: Form) -> str:
    """Return the SQL condition that each required field is present, has its type, and passes its check."""
    checks = []
    for n, (name, place) in _listed(form):
        checks.append(f"(coalesce(kinds[{n}], 'NULL') = 'NULL' or {name} is not null)")
        checks.append(f"(not ({place.needed}) or {name} is not null)")
        checks.append(f"coalesce({place.holds}, true)")
    return "\n    and ".join(checks)
