with

merged as (

    select * from {{ source('merged', 'sessions') }}

)

select * from merged
