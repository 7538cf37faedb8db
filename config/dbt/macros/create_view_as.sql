{#- dbt's own, but a view that stands as it would be made is let stand. Spark replaces a view by dropping it and making it
    anew: who asks in between is told that there is none. `--full-refresh` makes every view anew. -#}
{% macro spark__create_view_as(relation, sql) -%}
    {%- if config.get('contract').enforced -%}
        {{ get_assert_columns_equivalent(sql) }}
    {%- endif -%}
    {%- set found = get_column_schema_from_query(sql) -%}
    {%- set columns -%}
        {%- if config.persist_column_docs() -%}
            ({{ get_persist_docs_column_list(model.columns, found | map(attribute='name') | list) }})
        {%- endif -%}
    {%- endset -%}
    {%- set made_of = local_md5([columns, comment_clause(), sql, found | map(attribute='dtype') | join] | join('\n')) -%}
    {%- if stands_as_made(relation, made_of) -%}
        alter view {{ relation }} set tblproperties ('made_of' = '{{ made_of }}')
    {%- else -%}
        create or replace view {{ relation }} {{ columns }}
        {{ comment_clause() }}
        tblproperties ('made_of' = '{{ made_of }}')
        as
        {{ sql }}
    {%- endif -%}
{%- endmacro %}

{% macro stands_as_made(relation, made_of) %}
    {%- set there = load_cached_relation(relation) -%}
    {%- if flags.FULL_REFRESH or there is none or not there.is_view -%}
        {% do return(false) %}
    {%- endif -%}
    {%- for property in fetch_tbl_properties(there).rows if property[0] == 'made_of' and property[1] == made_of -%}
        {% do return(true) %}
    {%- endfor -%}
    {% do return(false) %}
{% endmacro %}
