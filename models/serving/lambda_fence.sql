with

    publications as (select * from {{ ref("stg_publications") }}),

    fences as (select * from {{ ref("stg_fences") }}),

    served as (

        select max(publication_number) as publication_number, max_by(run_id, publication_number) as run_id
        from publications

    ),

    fence as (

        select
            max(served.publication_number) as publication_number,
            max(served.run_id) as run_id,
            -- Before the first publication the fence lies before every event: the stream answers alone.
            coalesce(max(fences.complete_until), timestamp '1900-01-01 00:00:00') as complete_until
        from served
        left join fences on fences.run_id = served.run_id

    )

select *
from fence
