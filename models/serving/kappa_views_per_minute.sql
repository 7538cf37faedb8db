-- Written by `lakehouse dbt sync` from config/tables/gold.views_per_minute.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "views_per_minute") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Asked whenever the view is read: a switch needs no new view.
        where generation = {{ served_generation("gold.views_per_minute") }}

    )

select *
from served
