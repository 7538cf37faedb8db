{#- Replaces dbt-spark's macro: a view whose definition has not changed is left alone. Spark replaces a view by dropping
    and creating it, and a query in between would fail. `--full-refresh` recreates every view.
    The view's columns are asked for once: for its contract, for its comments and for the hash of its definition. -#}
{% macro spark__create_view_as(relation, sql) -%}
    {%- set found = get_column_schema_from_query(sql) -%}
    {%- if config.get("contract").enforced and not keeps_contract(found) -%}
        {{ get_assert_columns_equivalent(sql) }}
    {%- endif -%}
    {%- set columns -%}
        {%- if config.persist_column_docs() -%}
            ({{ get_persist_docs_column_list(model.columns, found | map(attribute="name") | list) }})
        {%- endif -%}
    {%- endset -%}
    {%- set definition = local_md5(
        [columns, comment_clause(), sql, found | map(attribute="dtype") | join] | join("\n")
    ) -%}
    {%- if has_definition(relation, definition) -%} {{ return("select 'unchanged'") }} {%- endif -%}
    create or replace view {{ relation }} {{ columns }}
    {{ comment_clause() }}
    tblproperties ('definition' = '{{ definition }}')
    as
    {{ sql }}
{%- endmacro %}

{#- Compare the columns of a query with those of the contract. False is no verdict: dbt's own check then decides, with
    two more queries, and explains. -#}
{% macro keeps_contract(found) %}
    {%- set promised = [] -%}
    {%- for column in model.columns.values() -%}
        {%- do promised.append(column.name | lower ~ " " ~ column.data_type | lower) -%}
    {%- endfor -%}
    {%- set given = [] -%}
    {%- for column in found -%} {%- do given.append(column.name | lower ~ " " ~ column.dtype | lower) -%} {%- endfor -%}
    {% do return(promised | sort == given | sort) %}
{% endmacro %}

{#- Look for the hash in what `show table extended` told dbt at its start: no query is needed. -#}
{% macro has_definition(relation, definition) %}
    {%- set existing = load_cached_relation(relation) -%}
    {%- if flags.FULL_REFRESH or existing is none or not existing.is_view -%} {% do return(false) %} {%- endif -%}
    {% do return(("definition=" ~ definition) in (existing.information or "")) %}
{% endmacro %}

{#- Replaces dbt-spark's macro, which describes every view and then changes nothing: a view has its comments already. -#}
{% macro spark__persist_docs(relation, model, for_relation, for_columns) -%}
    {% if for_columns and config.persist_column_docs() and model.columns and not relation.is_view %}
        {% set existing = adapter.get_columns_in_relation(relation) | map(attribute="name") | list %}
        {% do alter_column_comment(relation, validate_doc_columns(relation, model.columns, existing)) %}
    {% endif %}
{% endmacro %}
