-- Without rules and event_id: the oracle says that a record is broken, not by which names, nor what of it can be read.
select
    v.topic, v."partition", v."offset", v.arrival_time,
    if(v.first_offset is null, null, {'partition': v.first_partition, 'offset': v.first_offset}) as duplicate_of
from verdicts v
where v.verdict = 'quarantined'
