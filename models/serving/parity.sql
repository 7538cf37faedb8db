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

named as (

    select explode(array('{{ keys | join("', '") }}')) as table_name

),

-- A row takes part on the side on which it is final; an answer without final rows takes part as it is.
judged as (

    select
        named.table_name,
        finality.final_until,
        lambda_has and coalesce(lambda_final_at < final_until, never_final) as by_lambda,
        kappa_has and coalesce(kappa_final_at < final_until, never_final) as by_kappa,
        equal
    from named
    left join compared on compared.table_name = named.table_name
    left join finality on finality.table_name = named.table_name

),

counted as (

    select
        table_name,
        max(final_until) as final_until,
        count_if(by_lambda) as lambda_rows,
        count_if(by_kappa) as kappa_rows,
        count_if(by_lambda and by_kappa and equal) as equal_rows,
        count_if(by_lambda and not by_kappa) as lambda_only_rows,
        count_if(by_kappa and not by_lambda) as kappa_only_rows,
        count_if(by_lambda and by_kappa and not equal) as changed_rows,
        count_if((by_lambda or by_kappa) and not (by_lambda and by_kappa and equal)) as differing_rows
    from judged
    group by table_name

)

select * from counted
