with

    batches as (select * from {{ ref("stg_batches") }}),

    generations as (select * from {{ ref("stg_generations") }}),

    live as (select table_name, max_by(generation, switch_number) as generation from generations group by table_name),

    of_live as (

        select
            batches.job,
            batches.closed_until,
            batches.epoch,
            max(batches.epoch) over (partition by batches.job) as last_epoch
        from batches
        left join live on live.table_name = concat('gold.', batches.job)
        where batches.generation = coalesce(live.generation, 1)

    ),

    -- The watermark of an earlier epoch no longer applies.
    of_last_epoch as (

        select job as table_name, max(closed_until) as closed_until from of_live where epoch = last_epoch group by job

    )

select *
from of_last_epoch
where closed_until is not null
