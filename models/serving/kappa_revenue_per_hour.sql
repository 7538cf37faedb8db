with

gold as (

    select * from {{ source('gold', 'revenue_per_hour') }}

)

select * from gold
