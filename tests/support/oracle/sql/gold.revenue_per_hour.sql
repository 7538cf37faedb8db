with arrived as (
    from silver_payments
    union all
    from late_payments where getvariable('strategy') <> 'leave'
),
received as (
    select
        date_trunc('hour', event_time) as window_start, merchant_id, amount_cents,
        outcome = 'late' as late,
        outcome = 'silver' or getvariable('strategy') = 'merge' as counts
    from arrived
    where type = 'payment_received'
)
select
    window_start,
    window_start + interval 1 hour as window_end,
    merchant_id,
    count(*) filter (where counts) as payments,
    coalesce(sum(amount_cents) filter (where counts), 0)::bigint as revenue_cents,
    count(*) filter (where late) as late_payments,
    coalesce(sum(amount_cents) filter (where late), 0)::bigint as late_revenue_cents
from received
group by window_start, merchant_id
