with impressions as (
    select event_id as impression_event_id, impression_id, product_id, event_time as impression_time
    from silver_clicks
    where type = 'impression'
),
clicks as (
    select event_id as click_event_id, impression_id, user_id, event_time as click_time
    from silver_clicks
    where type = 'click'
)
select
    impression_event_id, click_event_id, impression_id, user_id, product_id, impression_time, click_time,
    click_time::date as day
from impressions
join clicks using (impression_id)
where click_time between impression_time and impression_time + interval 5 minutes
