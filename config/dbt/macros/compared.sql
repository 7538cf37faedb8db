{#- Put the Lambda answer of a table beside the Kappa answer, key by key, with when each row becomes final. -#}
{% macro compared(table, key, final_at) -%}
    {%- set answer = 'select *, ' ~ (final_at or 'cast(null as timestamp)') ~ ' as final_at from ' -%}
    select
        '{{ table }}' as table_name,
        {{ 'false' if final_at else 'true' }} as never_final,
        by_lambda.final_at as lambda_final_at,
        by_kappa.final_at as kappa_final_at,
        by_lambda.{{ key[0] }} is not null as lambda_has,
        by_kappa.{{ key[0] }} is not null as kappa_has,
        struct(by_lambda.*) <=> struct(by_kappa.*) as equal
    from ({{ answer }} {{ ref('lambda_' ~ table) }}) as by_lambda
    full outer join ({{ answer }} {{ ref('kappa_' ~ table) }}) as by_kappa
        on {% for column in key -%}
            by_lambda.{{ column }} = by_kappa.{{ column }}{{ ' and ' if not loop.last }}
        {%- endfor %}
{%- endmacro %}
