-- Written by `lakehouse dbt sync` from config/tables/gold.*.yaml.
-- fmt: off
{{ compare_answers("ad_clicks", ["impression_event_id", "impression_time", "click_event_id", "click_time"], final_at="click_time") }}
union all
{{ compare_answers("conversions", ["order_id"], final_at="order_time") }}
union all
{{ compare_answers("order_payments", ["order_id"], final_at="order_time + interval 1 hour") }}
union all
{{ compare_answers("order_status", ["order_id"], final_at=none) }}
union all
{{ compare_answers("revenue_per_hour", ["window_start", "merchant_id"], final_at="window_end") }}
union all
{{ compare_answers("sessions", ["user_id", "session_start"], final_at="session_end") }}
union all
{{ compare_answers("trending", ["window_start", "rank"], final_at="window_end") }}
union all
{{ compare_answers("views_per_minute", ["window_start", "product_id", "tier"], final_at="window_end") }}
