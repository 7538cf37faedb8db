with

gold as (

    select * from {{ source('gold', 'conversions') }}

)

select * from gold
