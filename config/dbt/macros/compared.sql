{#- Put the Lambda answer of a table beside the Kappa answer: rows that Kappa calls final, which Lambda then does too. -#}
{% macro compared(table, key, final_at) -%}
    {%- set final -%}
        {%- if final_at -%}
            where {{ final_at }} < (select final_until from finality where table_name = '{{ table }}')
        {%- endif -%}
    {%- endset -%}
    select
        '{{ table }}' as table_name,
        count(by_lambda.{{ key[0] }}) as lambda_rows,
        count(by_kappa.{{ key[0] }}) as kappa_rows,
        count_if(by_kappa.{{ key[0] }} is null) as lambda_only_rows,
        count_if(by_lambda.{{ key[0] }} is null) as kappa_only_rows,
        count_if(struct(by_lambda.*) <=> struct(by_kappa.*)) as equal_rows
    from (select * from {{ ref('lambda_' ~ table) }} {{ final }}) as by_lambda
    full outer join (select * from {{ ref('kappa_' ~ table) }} {{ final }}) as by_kappa
        on {% for column in key -%}
            by_lambda.{{ column }} = by_kappa.{{ column }}{{ ' and ' if not loop.last }}
        {%- endfor %}
{%- endmacro %}
