-- Written by `lakehouse dbt sync` from config/tables/gold.order_payments.yaml.
with

    every_generation as (select * from {{ source("gold_generations", "order_payments") }}),

    served as (

        select * except (generation)
        from every_generation
        -- Evaluated at query time, so a switch does not rebuild the view.
        where generation = {{ served_generation("gold.order_payments") }}

    )

select *
from served
