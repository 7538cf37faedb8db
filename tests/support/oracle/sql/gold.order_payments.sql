with placed as (
    select
        order_id, user_id, merchant_id, amount_cents, event_id as order_event_id, event_time as order_time
    from silver_orders
    where type = 'order_placed'
),
received as (
    select order_id, event_id as payment_event_id, event_time as payment_time, amount_cents as paid_cents
    from silver_payments
    where type = 'payment_received'
),
candidates as (
    select placed.*, payment_event_id, payment_time, paid_cents
    from placed
    left join received
        on received.order_id = placed.order_id
        and payment_time between order_time and order_time + interval 1 hour
),
known as (
    from candidates
    where payment_event_id is not null
        or getvariable('closed_until') is null
        or order_time + interval 1 hour < getvariable('closed_until')
)
select
    order_id, user_id, merchant_id, amount_cents, order_event_id, order_time,
    payment_event_id, payment_time, paid_cents,
    payment_event_id is not null as paid,
    order_time::date as day
from known
-- An order is placed once: of several placings the first counts, and of its payments the first.
qualify row_number() over (
    partition by order_id order by order_time, order_event_id, payment_time, payment_event_id
) = 1
