with latest as (
    select user_id, arg_max(coalesce(tier, 'unknown'), (valid_from, "partition", "offset")) as tier
    from users
    group by user_id
),
lengths as (
    select *, epoch_ms(session_end) - epoch_ms(session_start) - 1800000 as length
    from sessions
)
select
    user_id,
    count(*) as sessions,
    count(*) filter (converted) as converted_sessions,
    sum(events)::bigint as events,
    sum(pages)::bigint as pages,
    sum(length)::bigint as active_ms,
    min(session_start) as first_session_at,
    max(session_start) as last_session_at,
    coalesce(any_value(latest.tier), 'unknown') as current_tier
from lengths
left join latest using (user_id)
group by user_id
