with

    source as (select * from {{ source("silver", "users") }}),

    renamed as (

        select event_id as user_version_id, user_id, op as operation, tier, country, valid_from, valid_to from source

    )

select *
from renamed
