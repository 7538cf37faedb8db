with carts as (
    select event_id as cart_event_id, user_id, product_id, event_time as cart_time
    from silver_clicks
    where type = 'add_to_cart'
),
candidates as (
    select placed.*, cart_event_id, cart_time
    from placed
    join carts using (user_id, product_id)
    where cart_time between order_time - interval 24 hours and order_time
)
select
    order_id, user_id, product_id, cart_event_id, cart_time, order_time, amount_cents,
    order_time::date as day
from candidates
qualify row_number() over (partition by order_id order by cart_time desc, cart_event_id desc) = 1
