with statuses as (
    select
        order_id, status, event_time as status_time, event_id as status_event_id,
        count(*) over (partition by order_id) as changes
    from silver_orders
    where type = 'order_status_changed'
)
from statuses
qualify row_number() over (partition by order_id order by status_time desc, status_event_id desc) = 1
