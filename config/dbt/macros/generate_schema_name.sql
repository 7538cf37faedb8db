{#- Plain schema names (serving, marts) where the catalog is production's or one's own; on the target `dev`, which shares
    a catalog with others, the developer's name comes first: anna_serving, anna_marts. -#}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {%- set schema = (custom_schema_name or target.schema) | trim -%}
    {{ target.schema ~ "_" ~ schema if target.name == "dev" and custom_schema_name else schema }}
{%- endmacro %}
