-- Written by `lakehouse dbt sync` from config/tables/gold.*.yaml.
select 'ad_clicks' as table_name, false as never_final
union all
select 'conversions' as table_name, false as never_final
union all
select 'order_payments' as table_name, false as never_final
union all
select 'order_status' as table_name, true as never_final
union all
select 'revenue_per_hour' as table_name, false as never_final
union all
select 'sessions' as table_name, false as never_final
union all
select 'trending' as table_name, false as never_final
union all
select 'views_per_minute' as table_name, false as never_final
