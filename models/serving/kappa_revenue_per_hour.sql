-- Written by `lakehouse dbt sync` from config/tables/gold.revenue_per_hour.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "revenue_per_hour") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.revenue_per_hour") }}

    )

select *
from served
