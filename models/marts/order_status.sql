with

    orders as (select * from {{ ref("stg_orders") }}),

    statuses as (select * from {{ served("order_status") }}),

    order_payments as (select * from {{ served("order_payments") }}),

    numbered as (

        select *, row_number() over (partition by order_id order by happened_at, order_event_id) as number
        from orders
        where order_event_type = 'order_placed'

    ),

    -- An order is placed once: later order_placed events of the same order are ignored.
    placed as (select * from numbered where number = 1),

    joined as (

        select
            coalesce(placed.order_id, statuses.order_id) as order_id,
            placed.user_id,
            placed.product_id,
            placed.merchant_id,
            placed.amount_cents,
            placed.happened_at as ordered_at,
            coalesce(statuses.status, 'placed') as status,
            coalesce(statuses.status_time, placed.happened_at) as status_at,
            coalesce(statuses.changes, 0) as changes
        from placed
        full outer join statuses on statuses.order_id = placed.order_id

    ),

    final as (

        select joined.*, order_payments.paid
        from joined
        left join order_payments on order_payments.order_id = joined.order_id

    )

select *
from final
