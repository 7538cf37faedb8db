with

gold as (

    select * from {{ source('gold', 'order_payments') }}

)

select * from gold
