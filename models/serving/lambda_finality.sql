with

kappa_finality as (

    select * from {{ ref('kappa_finality') }}

),

fences as (

    select * from {{ ref('stg_fences') }}

),

publications as (

    select * from {{ ref('stg_publications') }}

),

served as (

    select max_by(run_id, publication_number) as run_id
    from publications

),

fence as (

    select max(fences.complete_until) as complete_until
    from fences
    inner join served on served.run_id = fences.run_id

),

-- Before the fence the batch layer answers, on complete data; after it the stream does.
final as (

    select
        kappa_finality.table_name,
        greatest(kappa_finality.final_until, fence.complete_until) as final_until
    from kappa_finality
    cross join fence

)

select * from final
