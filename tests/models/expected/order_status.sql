with placed as (
    from orders
    where type = 'order_placed'
    qualify row_number() over (partition by order_id order by event_time, event_id) = 1
)
select
    order_id, placed.user_id, placed.product_id, placed.merchant_id, placed.amount_cents,
    placed.event_time as ordered_at,
    coalesce(order_status.status, 'placed') as status,
    coalesce(status_time, placed.event_time) as status_at,
    coalesce(changes, 0) as changes,
    paid
from placed
full join order_status using (order_id)
left join order_payments using (order_id)
