{#- Reference the answer that marts are built on: Lambda's or Kappa's, as the variable `architecture` says. -#}
{% macro served(table) -%}
    {%- if var("architecture") not in ("kappa", "lambda") -%}
        {{ exceptions.raise_compiler_error("architecture is kappa or lambda, not " ~ var("architecture")) }}
    {%- endif -%}
    {{ return(ref(var("architecture") ~ "_" ~ table)) }}
{%- endmacro %}
