select
    day, product_id,
    count(*) as windows,
    count(*) filter (rank = 1) as windows_first,
    min(rank) as best_rank,
    max(views) as peak_views,
    first(window_start order by views desc, window_start) as peak_at
from trending
group by day, product_id
