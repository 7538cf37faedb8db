{#- Give the keys that are not whole, or that several rows share. -#}
{% test unique_key(model, columns) %}

select {{ columns | join(', ') }}, count(*) as rows_of_key
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1 or {{ columns | join(' is null or ') }} is null

{% endtest %}
