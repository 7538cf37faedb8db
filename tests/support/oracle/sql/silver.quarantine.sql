-- Without rules and event_id: the oracle says that a record is broken, not by which names, nor what of it can be read.
select
    o.topic, o."partition", o."offset", o.arrival_time,
    if(o.first_offset is null, null, {'partition': o.first_partition, 'offset': o.first_offset}) as duplicate_of
from outcomes o
where o.outcome = 'quarantined'
