with

merged as (

    select * from {{ source('merged', 'conversions') }}

)

select * from merged
