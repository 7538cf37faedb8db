-- One row per order: an order is placed once, and what claims to place it again is not a second order.
select order_id, user_id, product_id, merchant_id, amount_cents, event_time as order_time
from silver_orders
where type = 'order_placed'
qualify row_number() over (partition by order_id order by event_time, event_id) = 1
