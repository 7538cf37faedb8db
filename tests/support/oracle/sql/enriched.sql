-- Clicks of silver and those that came too late, with the tier as of their own time.
with clicks as (
    from silver_clicks
    union all
    from late_clicks
)
select
    clicks.*,
    coalesce(versions.tier, 'unknown') as tier,
    if(versions.tier is null, null, versions.event_id) as tier_event_id
from clicks
asof left join versions
    on versions.user_id = clicks.user_id and versions.valid_from <= clicks.event_time
