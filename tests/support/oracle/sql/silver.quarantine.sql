-- Without rules and event_id: the oracle says that a record is broken, not by which names, nor what of it can be read.
select
    v.topic, v."partition", v."offset", r.key, r.value, v.arrival_time,
    if(v.first_offset is null, null, {'partition': v.first_partition, 'offset': v.first_offset}) as duplicate_of
from verdicts v
join records r on r.topic = v.topic and r."partition" = v."partition" and r."offset" = v."offset"
where v.verdict = 'quarantined'
