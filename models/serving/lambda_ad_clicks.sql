with

merged as (

    select * from {{ source('merged', 'ad_clicks') }}

)

select * from merged
