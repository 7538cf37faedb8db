with

merged as (

    select * from {{ source('merged', 'trending') }}

)

select * from merged
