-- Written by `lakehouse dbt sync` from config/tables/gold.sessions.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "sessions") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Asked whenever the view is read: a switch needs no new view.
        where generation = {{ served_generation("gold.sessions") }}

    )

select *
from served
