with

gold as (

    select * from {{ source('gold', 'order_status') }}

)

select * from gold
