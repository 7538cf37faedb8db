with

    source as (select * from {{ source("ops", "fences") }}),

    renamed as (

        select run as run_id, topic, partition as partition_id,
        offset as first_unread_offset, complete_until, recorded_at
        from source

    )

select *
from renamed
