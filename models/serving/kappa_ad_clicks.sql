with

gold as (

    select * from {{ source('gold', 'ad_clicks') }}

)

select * from gold
