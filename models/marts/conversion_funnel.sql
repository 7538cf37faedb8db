{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key=['day', 'tier'],
        on_schema_change='fail',
    )
}}

{#- A complete day no longer changes. As a literal: with a subquery Delta would read the days it could leave out. -#}
{%- set since = none -%}
{%- if is_incremental() -%}
    {%- set since = run_query('select max(day) from ' ~ this ~ ' where complete').columns[0][0] -%}
{%- endif -%}

with

clicks as (

    select * from {{ ref('stg_clicks') }}
    {%- if since %}
    where clicked_on > date'{{ since }}'
    {%- endif %}

),

conversions as (

    select * from {{ served('conversions') }}

),

order_payments as (

    select * from {{ served('order_payments') }}

),

finality as (

    select min(final_until) as final_until
    from {{ ref('kappa_finality') }}
    where table_name in ('views_per_minute', 'conversions', 'order_payments')
    having count(*) = 3

),

-- An order and its payment count on the day, and in the tier, of the moment its product was put into the cart.
steps as (

    select
        clicks.clicked_on as day,
        clicks.tier,
        if(clicks.click_type = 'page_view', clicks.user_id, null) as viewer,
        if(clicks.click_type = 'add_to_cart', clicks.user_id, null) as carter,
        if(conversions.order_id is not null, clicks.user_id, null) as buyer,
        if(order_payments.paid, clicks.user_id, null) as payer,
        conversions.order_id,
        conversions.amount_cents
    from clicks
    left join conversions on conversions.cart_event_id = clicks.click_id
    left join order_payments on order_payments.order_id = conversions.order_id
    where clicks.click_type in ('page_view', 'add_to_cart')

),

counted as (

    select
        day,
        tier,
        count(distinct viewer) as viewers,
        count(distinct carter) as carters,
        count(distinct buyer) as buyers,
        count(distinct payer) as payers,
        count(order_id) as orders,
        coalesce(sum(amount_cents), 0) as ordered_cents
    from steps
    group by day, tier

),

final as (

    select
        counted.*,
        round(try_divide(counted.buyers, counted.viewers), 4) as buyers_per_viewer,
        -- The day itself, 24 hours for the order and one for its payment.
        coalesce(
            to_timestamp(counted.day) + interval 49 hours < (select final_until from finality), false
        ) as complete,
        {{ built_from() }} as built_from
    from counted

)

select * from final
