-- Written by `lakehouse dbt sync` from config/tables/gold.views_per_minute.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "views_per_minute") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.views_per_minute") }}

    )

select *
from served
