with

merged as (

    select * from {{ source('merged', 'order_payments') }}

)

select * from merged
