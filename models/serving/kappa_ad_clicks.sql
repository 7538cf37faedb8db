-- Written by `lakehouse dbt sync` from config/tables/gold.ad_clicks.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "ad_clicks") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.ad_clicks") }}

    )

select *
from served
