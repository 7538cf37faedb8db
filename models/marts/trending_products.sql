with

    trending as (select * from {{ served("trending") }}),

    by_day as (

        select
            day,
            product_id,
            count(*) as windows,
            count_if(rank = 1) as windows_first,
            min(rank) as best_rank,
            max(views) as peak_views,
            -- The earliest window on a tie.
            min_by(window_start, struct(- views, window_start)) as peak_at
        from trending
        group by day, product_id

    )

select *
from by_day
