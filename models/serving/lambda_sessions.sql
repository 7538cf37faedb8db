-- Written by `lakehouse dbt sync` from config/tables/gold.sessions.yaml.
with

    batch as (select * from {{ source("batch", "sessions") }}),

    speed as (select * from {{ ref("kappa_sessions") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    merged as ({{ merge_by_final_at("session_end") }})

select *
from merged
