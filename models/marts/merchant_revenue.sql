with

    revenue_per_hour as (select * from {{ served("revenue_per_hour") }}),

    by_day as (

        select
            to_date(window_start) as day,
            merchant_id,
            sum(payments) as payments,
            sum(revenue_cents) as revenue_cents,
            sum(late_payments) as late_payments,
            sum(late_revenue_cents) as late_revenue_cents,
            -- The earliest hour on a tie.
            min_by(window_start, struct(- revenue_cents, window_start)) as best_hour
        from revenue_per_hour
        group by to_date(window_start), merchant_id

    ),

    accumulated as (

        select *, sum(revenue_cents) over (partition by merchant_id order by day) as revenue_cents_to_date from by_day

    )

select *
from accumulated
