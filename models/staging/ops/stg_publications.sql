with

    source as (select * from {{ source("ops", "publications") }}),

    renamed as (

        select
            publication as publication_number,
            run as run_id,
            table_name,
            segment as segment_on,
            computed_by as computed_by_run_id,
            published_at
        from source

    )

select *
from renamed
