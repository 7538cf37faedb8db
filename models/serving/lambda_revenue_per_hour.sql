with

merged as (

    select * from {{ source('merged', 'revenue_per_hour') }}

)

select * from merged
