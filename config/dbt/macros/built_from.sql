{#- Name what the served rows were built from, in SQL: the architecture, the last switch of generations and, for Lambda,
    the last publication. The name changes whenever history was rebuilt. -#}
{% macro built_from() -%}
    {%- set lambda = var("architecture") == "lambda" -%}
    concat_ws(
        ' ',
        '{{ var("architecture") }}',
        (select coalesce(max(switch_number), 0) from {{ ref("stg_generations") }})
        {%- if lambda %}, (select coalesce(max(publication_number), 0) from {{ ref("stg_publications") }}) {%- endif %}
    )
{%- endmacro %}

{#- Replaces dbt's macro: an incremental model with the column built_from is rebuilt in full once its value changed. -#}
{% macro should_full_refresh() %}
    {%- set asked = config.get("full_refresh") -%}
    {%- if asked is none -%} {%- set asked = flags.FULL_REFRESH -%} {%- endif -%}
    {% do return(asked or built_from_another()) %}
{% endmacro %}

{% macro built_from_another() %}
    {%- if not execute or "built_from" not in model.columns or load_relation(this) is none -%}
        {% do return(false) %}
    {%- endif -%}
    {%- set others = run_query("select count(*) from " ~ this ~ " where built_from <> " ~ built_from()) -%}
    {% do return(others.rows[0][0] > 0) %}
{% endmacro %}
