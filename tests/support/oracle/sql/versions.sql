-- What was known of each user from when on; of several changes at one moment the last in the log counts.
select user_id, event_time as valid_from, event_id, if(op = 'd', null, tier) as tier
from silver_users
qualify row_number() over (partition by user_id, event_time order by "partition" desc, "offset" desc) = 1
