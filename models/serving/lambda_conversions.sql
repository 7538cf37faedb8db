-- Written by `lakehouse dbt sync` from config/tables/gold.conversions.yaml.
with

    batch as (select * from {{ source("batch", "conversions") }}),

    speed as (select * from {{ ref("kappa_conversions") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("order_time", ["order_id"]) }})

select *
from merged
