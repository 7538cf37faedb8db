with carts as (
    select event_id as cart_event_id, user_id, product_id, event_time as cart_time
    from silver_clicks
    where type = 'add_to_cart'
),
candidates as (
    select
        order_id, user_id, product_id, cart_event_id, cart_time,
        event_id as order_event_id, event_time as order_time, amount_cents
    from silver_orders
    join carts using (user_id, product_id)
    where type = 'order_placed' and cart_time between order_time - interval 24 hours and order_time
)
select *, order_time::date as day
from candidates
-- An order is placed once: of several placings the first counts that has a cart event, and of its cart events the last.
qualify row_number() over (
    partition by order_id order by order_time, order_event_id, cart_time desc, cart_event_id desc
) = 1
