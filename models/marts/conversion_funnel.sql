{{
    config(
        materialized="incremental",
        incremental_strategy="merge",
        unique_key=["day", "tier"],
        on_schema_change="fail",
    )
}}

{#- A complete day no longer changes. As a literal: with a subquery Delta would read the days it could leave out. -#}
{%- set since = none -%}
{%- if is_incremental() -%}
    {%- set since = run_query("select max(day) from " ~ this ~ " where complete").columns[0][0] -%}
{%- endif -%}

with

    clicks as (

        select * from {{ ref("stg_clicks") }} {%- if since %} where clicked_on > date '{{ since }}' {%- endif %}

    ),

    conversions as (select * from {{ served("conversions") }}),

    order_payments as (select * from {{ served("order_payments") }}),

    finality as (

        select min(closed_until) as closed_until
        from {{ ref("kappa_finality") }}
        where table_name in ('views_per_minute', 'conversions', 'order_payments')
        having count(*) = 3

    ),

    -- An order and its payment count on the day, and in the tier, of the moment its product was put into the cart.
    -- By user first: to count distinct users four times would go through every click five times.
    visitors as (

        select
            clicks.clicked_on as day,
            clicks.tier,
            clicks.user_id,
            bool_or(clicks.click_type = 'page_view') as viewed,
            bool_or(clicks.click_type = 'add_to_cart') as carted,
            bool_or(conversions.order_id is not null) as bought,
            bool_or(order_payments.paid) as paid,
            count(conversions.order_id) as orders,
            sum(conversions.amount_cents) as ordered_cents
        from clicks
        left join
            conversions on conversions.cart_event_id = clicks.click_id and conversions.cart_time = clicks.clicked_at
        left join order_payments on order_payments.order_id = conversions.order_id
        where clicks.click_type in ('page_view', 'add_to_cart')
        group by clicks.clicked_on, clicks.tier, clicks.user_id

    ),

    counted as (

        select
            day,
            tier,
            count_if(viewed) as viewers,
            count_if(carted) as carters,
            count_if(bought) as buyers,
            count_if(paid) as payers,
            sum(orders) as orders,
            coalesce(sum(ordered_cents), 0) as ordered_cents
        from visitors
        group by day, tier

    ),

    final as (

        select
            counted.*,
            round(try_divide(counted.buyers, counted.viewers), 4) as buyers_per_viewer,
            -- The day itself, 24 hours for the order and one for its payment.
            coalesce(
                to_timestamp(counted.day) + interval 49 hours < (select closed_until from finality), false
            ) as complete,
            {{ built_from() }} as built_from
        from counted

    )

select *
from final
