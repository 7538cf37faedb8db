select
    order_id, user_id, merchant_id, amount_cents,
    order_time as ordered_at,
    (select status from order_status where order_status.order_id = o.order_id) as status,
    (select count(*) from payments p where p.order_id = o.order_id and type = 'payment_failed') as failed_payments,
    (select reason from payments p where p.order_id = o.order_id and type = 'payment_failed'
     order by event_time desc, event_id desc limit 1) as last_reason
from order_payments o
where not paid
