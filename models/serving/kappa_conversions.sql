-- Written by `lakehouse dbt sync` from config/tables/gold.conversions.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "conversions") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.conversions") }}

    )

select *
from served
