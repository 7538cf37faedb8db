{#- The Lambda merge. Both macros read the CTEs `batch`, `speed` and `fence`, and take each row from one side only:
    no window is counted twice or missed, however old the batch is and however far the stream lags.
    The stream's CTE is `speed`: Spark 4.1 reads `from stream left anti join` as a streaming table named `left`. -#}
{#- Rows become final: batch rows that were final before the fence, and stream rows that become final from it on.
    key: if the rows of a key can be on both sides, as those of an order that was placed twice: the batch row is the first
    of them. -#}
{% macro merge_by_final_at(final_at, key=none) %}
    select *
    from batch
    where {{ final_at }} < (select complete_until from fence)
    union all
    select speed.*
    from speed
    {%- if key %}
        left anti join
            (select * from batch where {{ final_at }} < (select complete_until from fence)) as earlier
            on {% for column in key -%}
                earlier.{{ column }} = speed.{{ column }}{{ " and " if not loop.last }}
            {%- endfor %}
    {%- endif %}
    where {{ final_at }} >= (select complete_until from fence)
{% endmacro %}

{#- Rows never become final: stream rows that changed from the fence on, and batch rows of all other keys. -#}
{% macro merge_by_changed_at(changed_at, key) %}
    select *
    from speed
    where {{ changed_at }} >= (select complete_until from fence)
    union all
    select batch.*
    from batch
    left anti join
        (select * from speed where {{ changed_at }} >= (select complete_until from fence)) as changed
        on {% for column in key -%}
            changed.{{ column }} = batch.{{ column }}{{ " and " if not loop.last }}
        {%- endfor %}
{% endmacro %}
