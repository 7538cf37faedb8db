{#- Find the keys that several rows share, and those that are incomplete. Takes what dbt_utils' test of that name takes;
    unlike it, it also fails on an empty column of the key, so that one query tests a primary key. -#}
{% test unique_combination_of_columns(model, combination_of_columns) %}

    select {{ combination_of_columns | join(", ") }}, count(*) as rows_of_key
    from {{ model }}
    group by {{ combination_of_columns | join(", ") }}
    having count(*) > 1 or {{ combination_of_columns | join(" is null or ") }} is null

{% endtest %}
