-- Written by `lakehouse dbt sync` from config/tables/gold.order_status.yaml.
with

    batch as (select * from {{ source("batch", "order_status") }}),

    speed as (select * from {{ ref("kappa_order_status") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_changed_at("status_time", ["order_id"]) }})

select *
from merged
