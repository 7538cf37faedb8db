-- Written by `lakehouse dbt sync` from config/tables/gold.views_per_minute.yaml.
with

    batch as (select * from {{ source("batch", "views_per_minute") }}),

    speed as (select * from {{ ref("kappa_views_per_minute") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("window_end") }})

select *
from merged
