-- Written by `lakehouse dbt sync` from config/tables/gold.order_payments.yaml.
with

    batch as (select * from {{ source("batch", "order_payments") }}),

    speed as (select * from {{ ref("kappa_order_payments") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("order_time + interval 1 hour", ["order_id"]) }})

select *
from merged
