with

    source as (select * from {{ source("ops", "batches") }}),

    renamed as (

        select job, generation, epoch, batch as batch_id, written as rows_written, closed_until, recorded_at from source

    )

select *
from renamed
