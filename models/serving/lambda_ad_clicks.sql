-- Written by `lakehouse dbt sync` from config/tables/gold.ad_clicks.yaml.
with

    batch as (select * from {{ source("batch", "ad_clicks") }}),

    speed as (select * from {{ ref("kappa_ad_clicks") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("click_time") }})

select *
from merged
