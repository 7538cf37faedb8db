with

    source as (select * from {{ source("ops", "generations") }}),

    renamed as (select switch as switch_number, table_name, generation, recorded_at as switched_at from source)

select *
from renamed
