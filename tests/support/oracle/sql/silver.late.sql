-- Without content_hash: the oracle compares contents by a hash of its own.
select
    o.topic, o."partition", o."offset", r.key, r.value, o.arrival_time, o.event_id, o.event_time,
    epoch_ms(o.arrival_time) - epoch_ms(o.event_time) as late_by_ms,
    if(o.first_offset is null, null, {'partition': o.first_partition, 'offset': o.first_offset}) as duplicate_of
from outcomes o
join records r on r.topic = o.topic and r."partition" = o."partition" and r."offset" = o."offset"
where o.outcome = 'late'
