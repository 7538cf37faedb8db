select
    event_id, type, event_time, user_id, product_id, dwell_ms, impression_id, quantity, tier, tier_event_id,
    arrival_time, "partition", "offset", event_time::date as event_date
from enriched
where outcome = 'silver'
