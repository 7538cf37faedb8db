-- Written by `lakehouse dbt sync` from config/tables/gold.order_status.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "order_status") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.order_status") }}

    )

select *
from served
