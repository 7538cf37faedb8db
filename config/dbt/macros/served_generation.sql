{#- Select the served generation of a table: the one that the last switch named, or the first before any switch. -#}
{% macro served_generation(table) -%}
    (
        select coalesce(max_by(generation, switch_number), 1)
        from {{ ref("stg_generations") }}
        where table_name = '{{ table }}'
    )
{%- endmacro %}
