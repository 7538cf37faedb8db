with

gold as (

    select * from {{ source('gold', 'views_per_minute') }}

)

select * from gold
