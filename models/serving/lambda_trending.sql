-- Written by `lakehouse dbt sync` from config/tables/gold.trending.yaml.
with

    batch as (select * from {{ source("batch", "trending") }}),

    speed as (select * from {{ ref("kappa_trending") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("window_end") }})

select *
from merged
