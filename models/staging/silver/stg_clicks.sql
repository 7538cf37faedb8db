with

    source as (select * from {{ source("silver", "clicks_enriched") }}),

    renamed as (

        select
            event_id as click_id,
            type as click_type,
            user_id,
            product_id,
            impression_id,
            tier,
            quantity,
            dwell_ms,
            event_time as clicked_at,
            event_date as clicked_on,
            arrival_time as arrived_at
        from source

    )

select *
from renamed
