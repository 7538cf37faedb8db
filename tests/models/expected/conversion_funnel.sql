with ordered as (
    select clicks.event_date as day, clicks.tier, clicks.user_id, conversions.amount_cents, order_payments.paid
    from conversions
    join clicks on clicks.event_id = conversions.cart_event_id
    left join order_payments using (order_id)
),
looked as (
    select
        event_date as day, tier,
        count(distinct user_id) filter (type = 'page_view') as viewers,
        count(distinct user_id) filter (type = 'add_to_cart') as carters
    from clicks
    where type in ('page_view', 'add_to_cart')
    group by all
),
bought as (
    select
        day, tier,
        count(distinct user_id) as buyers,
        count(distinct user_id) filter (paid) as payers,
        count(*) as orders,
        sum(amount_cents)::bigint as ordered_cents
    from ordered
    group by all
)
select
    day, tier, viewers, carters,
    coalesce(buyers, 0) as buyers,
    coalesce(payers, 0) as payers,
    coalesce(orders, 0) as orders,
    coalesce(ordered_cents, 0) as ordered_cents,
    round(coalesce(buyers, 0) / nullif(viewers, 0), 4) as buyers_per_viewer,
    day + interval 49 hours < getvariable('closed_until') as complete
from looked
left join bought using (day, tier)
