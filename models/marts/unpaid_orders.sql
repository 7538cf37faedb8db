with

    order_payments as (select * from {{ served("order_payments") }}),

    payments as (select * from {{ ref("stg_payments") }}),

    statuses as (select * from {{ served("order_status") }}),

    failures as (

        select
            order_id, count(*) as failed_payments, max_by(reason, struct(happened_at, payment_event_id)) as last_reason
        from payments
        where payment_event_type = 'payment_failed'
        group by order_id

    ),

    unpaid as (

        select
            order_payments.order_id,
            order_payments.user_id,
            order_payments.merchant_id,
            order_payments.amount_cents,
            order_payments.order_time as ordered_at,
            statuses.status,
            coalesce(failures.failed_payments, 0) as failed_payments,
            failures.last_reason
        from order_payments
        left join failures on failures.order_id = order_payments.order_id
        left join statuses on statuses.order_id = order_payments.order_id
        where not order_payments.paid

    )

select *
from unpaid
