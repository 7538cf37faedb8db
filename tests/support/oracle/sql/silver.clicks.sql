-- Without content_hash: the oracle compares contents by a hash of its own.
select
    event_id, type, event_time, schema_version, user_id, product_id, dwell_ms, impression_id, quantity, ip, agent,
    arrival_time, "partition", "offset", event_time::date as event_date
from silver_clicks
