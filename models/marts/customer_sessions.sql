with

    sessions as (select * from {{ served("sessions") }}),

    users as (select * from {{ ref("stg_users") }}),

    by_user as (

        select
            user_id,
            count(*) as sessions,
            count_if(converted) as converted_sessions,
            sum(events) as events,
            sum(pages) as pages,
            -- A session ends 30 minutes after its last event.
            sum(unix_millis(session_end) - unix_millis(session_start)) - count(*) * 30 * 60 * 1000 as active_ms,
            min(session_start) as first_session_at,
            max(session_start) as last_session_at
        from sessions
        group by user_id

    ),

    final as (

        select by_user.*, coalesce(users.tier, 'unknown') as current_tier
        from by_user
        left join users on users.user_id = by_user.user_id and users.valid_to is null

    )

select *
from final
