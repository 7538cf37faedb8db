with minutes as (
    select date_trunc('minute', event_time) as minute, product_id, count(*) as views
    from silver_clicks
    where type = 'page_view'
    group by minute, product_id
),
-- A minute lies in five windows: the one that begins with it and the four that began before.
windows as (
    select minute - to_minutes(back) as window_start, product_id, sum(views)::bigint as views
    from minutes, range(5) as earlier(back)
    group by window_start, product_id
),
ranked as (
    select *, row_number() over (partition by window_start order by views desc, product_id) as rank
    from windows
)
select
    window_start,
    window_start + interval 5 minutes as window_end,
    rank::integer as rank,
    product_id,
    views,
    window_start::date as day
from ranked
where rank <= 10
