with days as (
    select
        window_start::date as day, merchant_id,
        sum(payments)::bigint as payments,
        sum(revenue_cents)::bigint as revenue_cents,
        sum(late_payments)::bigint as late_payments,
        sum(late_revenue_cents)::bigint as late_revenue_cents,
        first(window_start order by revenue_cents desc, window_start) as best_hour
    from revenue_per_hour
    group by all
)
select
    *,
    (select sum(revenue_cents)::bigint from days earlier
     where earlier.merchant_id = days.merchant_id and earlier.day <= days.day) as revenue_cents_to_date
from days
