with

gold as (

    select * from {{ source('gold', 'sessions') }}

)

select * from gold
