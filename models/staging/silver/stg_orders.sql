with

    source as (select * from {{ source("silver", "orders") }}),

    renamed as (

        select
            event_id as order_event_id,
            type as order_event_type,
            order_id,
            user_id,
            product_id,
            merchant_id,
            status,
            quantity,
            amount_cents,
            event_time as happened_at,
            arrival_time as arrived_at
        from source

    )

select *
from renamed
