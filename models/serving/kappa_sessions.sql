-- Written by `lakehouse dbt sync` from config/tables/gold.sessions.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "sessions") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.sessions") }}

    )

select *
from served
