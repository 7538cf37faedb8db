with

finality as (

    select * from {{ ref('kappa_finality') }}

),

{% set keys = {
    'ad_clicks': ['impression_event_id', 'click_event_id'],
    'conversions': ['order_id'],
    'order_payments': ['order_id'],
    'order_status': ['order_id'],
    'revenue_per_hour': ['window_start', 'merchant_id'],
    'sessions': ['user_id', 'session_start'],
    'trending': ['window_start', 'rank'],
    'views_per_minute': ['window_start', 'product_id', 'tier'],
} -%}
{%- set final_at = {
    'ad_clicks': 'click_time',
    'conversions': 'order_time',
    'order_payments': 'order_time + interval 1 hour',
    'order_status': none,
    'revenue_per_hour': 'window_end',
    'sessions': 'session_end',
    'trending': 'window_end',
    'views_per_minute': 'window_end',
} -%}

compared as (

{%- for table, key in keys.items() %}

    {{ compared(table, key, final_at[table]) }}
    {%- if not loop.last %}

    union all
    {%- endif %}
{%- endfor %}

),

counted as (

    select
        compared.table_name,
        finality.final_until,
        compared.lambda_rows,
        compared.kappa_rows,
        compared.equal_rows,
        compared.lambda_only_rows,
        compared.kappa_only_rows,
        compared.lambda_rows - compared.lambda_only_rows - compared.equal_rows as changed_rows,
        compared.lambda_rows + compared.kappa_only_rows - compared.equal_rows as differing_rows
    from compared
    left join finality on finality.table_name = compared.table_name

)

select * from counted
