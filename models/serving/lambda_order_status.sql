with

merged as (

    select * from {{ source('merged', 'order_status') }}

)

select * from merged
