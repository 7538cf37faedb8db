with

    parity_rows as (select * from {{ ref("parity_rows") }}),

    finality as (select * from {{ ref("kappa_finality") }}),

    comparable as (select * from {{ ref("comparable_tables") }}),

    -- A row counts on each side on which it is final; rows of a table that is never final always count.
    final_rows as (

        select
            comparable.table_name,
            finality.closed_until,
            in_lambda and coalesce(lambda_final_at < closed_until, never_final) as by_lambda,
            in_kappa and coalesce(kappa_final_at < closed_until, never_final) as by_kappa,
            equal
        from comparable
        left join parity_rows on parity_rows.table_name = comparable.table_name
        left join finality on finality.table_name = comparable.table_name

    ),

    counted as (

        select
            table_name,
            max(closed_until) as closed_until,
            count_if(by_lambda) as lambda_rows,
            count_if(by_kappa) as kappa_rows,
            count_if(by_lambda and by_kappa and equal) as equal_rows,
            count_if(by_lambda and not by_kappa) as lambda_only_rows,
            count_if(by_kappa and not by_lambda) as kappa_only_rows,
            count_if(by_lambda and by_kappa and not equal) as changed_rows,
            count_if((by_lambda or by_kappa) and not (by_lambda and by_kappa and equal)) as differing_rows
        from final_rows
        group by table_name

    )

select *
from counted
