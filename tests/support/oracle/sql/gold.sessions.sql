with activity as (
    select user_id, event_time, type
    from silver_clicks
    union all
    select user_id, event_time, type
    from silver_orders
    where type = 'order_placed'
),
gaps as (
    select
        *,
        coalesce(event_time > lag(event_time) over before + interval 30 minutes, true) as begins
    from activity
    window before as (partition by user_id order by event_time)
),
-- By range, so that events of one moment share a number whichever of them was taken as the first.
numbered as (
    select
        *,
        count_if(begins) over (
            partition by user_id order by event_time range between unbounded preceding and current row
        ) as number
    from gaps
),
sessions as (
    select
        user_id,
        min(event_time) as session_start,
        max(event_time) + interval 30 minutes as session_end,
        count(*) as events,
        count(*) filter (where type = 'page_view') as pages,
        bool_or(type = 'order_placed') as converted
    from numbered
    group by user_id, number
)
select *, session_start::date as day
from sessions
where getvariable('closed_until') is null or session_end < getvariable('closed_until')
