-- Without content_hash: the oracle compares contents by a hash of its own.
select
    event_id, type, event_time, schema_version, user_id, op, tier, country,
    event_time as valid_from,
    lead(event_time) over (partition by user_id order by event_time, "partition", "offset") as valid_to,
    arrival_time, "partition", "offset", event_time::date as event_date
from silver_users
