with

    source as (select * from {{ source("silver", "payments") }}),

    renamed as (

        select
            event_id as payment_event_id,
            type as payment_event_type,
            payment_id,
            order_id,
            user_id,
            merchant_id,
            method,
            country,
            reason,
            amount_cents,
            event_time as happened_at,
            arrival_time as arrived_at
        from source

    )

select *
from renamed
