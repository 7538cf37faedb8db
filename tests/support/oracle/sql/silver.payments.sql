-- Without content_hash: the oracle compares contents by a hash of its own.
select
    event_id, type, event_time, schema_version, order_id, payment_id, user_id, merchant_id, amount_cents, method, country, reason,
    arrival_time, "partition", "offset", event_time::date as event_date
from silver_payments
