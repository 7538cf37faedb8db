with

gold as (

    select * from {{ source('gold', 'trending') }}

)

select * from gold
