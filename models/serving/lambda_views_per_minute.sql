with

merged as (

    select * from {{ source('merged', 'views_per_minute') }}

)

select * from merged
