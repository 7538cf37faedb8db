-- Written by `lakehouse dbt sync` from config/tables/gold.conversions.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "conversions") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Asked whenever the view is read: a switch needs no new view.
        where generation = {{ served_generation("gold.conversions") }}

    )

select *
from served
