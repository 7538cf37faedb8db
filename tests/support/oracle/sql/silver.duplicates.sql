select
    topic, "partition", "offset", arrival_time, event_id, event_time,
    {'partition': first_partition, 'offset': first_offset} as duplicate_of
from outcomes
where outcome = 'duplicate'
