-- Without content_hash: the oracle compares contents by a hash of its own.
select
    v.topic, v."partition", v."offset", r.key, r.value, v.arrival_time, v.event_id, v.event_time,
    epoch_ms(v.arrival_time) - epoch_ms(v.event_time) as late_by_ms,
    if(v.first_offset is null, null, {'partition': v.first_partition, 'offset': v.first_offset}) as duplicate_of
from verdicts v
join records r on r.topic = v.topic and r."partition" = v."partition" and r."offset" = v."offset"
where v.verdict = 'late'
