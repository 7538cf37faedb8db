-- Written by `lakehouse dbt sync` from config/tables/gold.revenue_per_hour.yaml.
with

    batch as (select * from {{ source("batch", "revenue_per_hour") }}),

    speed as (select * from {{ ref("kappa_revenue_per_hour") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("window_end") }})

select *
from merged
