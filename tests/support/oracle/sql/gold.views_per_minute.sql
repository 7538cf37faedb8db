with views as (
    select
        date_trunc('minute', event_time) as window_start, product_id, tier, dwell_ms,
        outcome = 'late' as late,
        outcome = 'silver' or getvariable('strategy') = 'merge' as counts
    from enriched
    where type = 'page_view' and (outcome = 'silver' or getvariable('strategy') <> 'leave')
)
select
    window_start,
    window_start + interval 1 minute as window_end,
    product_id,
    tier,
    count(*) filter (where counts) as views,
    coalesce(sum(dwell_ms) filter (where counts), 0)::bigint as dwell_ms,
    count(*) filter (where late) as late_views,
    coalesce(sum(dwell_ms) filter (where late), 0)::bigint as late_dwell_ms,
    window_start::date as day
from views
group by window_start, product_id, tier
