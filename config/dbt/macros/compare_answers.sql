{#- Join the Lambda answer of a table with its Kappa answer, key by key. final_at: when a row becomes final; none: never. -#}
{% macro compare_answers(table, key, final_at) %}
    select
        '{{ table }}' as table_name,
        to_json(
            struct(
                {% for column in key -%}
                    coalesce(by_lambda.{{ column }}, by_kappa.{{ column }}) as {{ column }} {{- ", " if not loop.last }}
                {%- endfor %}
            )
        ) as row_key,
        {{ "by_lambda.final_at" if final_at else "cast(null as timestamp)" }} as lambda_final_at,
        {{ "by_kappa.final_at" if final_at else "cast(null as timestamp)" }} as kappa_final_at,
        by_lambda.{{ key[0] }} is not null as in_lambda,
        by_kappa.{{ key[0] }} is not null as in_kappa,
        struct(by_lambda.*) <=> struct(by_kappa.*) as equal
    from (select *{{ ", " ~ final_at ~ " as final_at" if final_at }} from {{ ref("lambda_" ~ table) }}) as by_lambda
    full outer join
        (select *{{ ", " ~ final_at ~ " as final_at" if final_at }} from {{ ref("kappa_" ~ table) }}) as by_kappa
        on {% for column in key -%}
            by_lambda.{{ column }} = by_kappa.{{ column }}{{ " and " if not loop.last }}
        {%- endfor %}
{% endmacro %}
