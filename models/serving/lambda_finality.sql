with

    kappa_finality as (select * from {{ ref("kappa_finality") }}),

    fence as (select * from {{ ref("lambda_fence") }}),

    -- Before the fence the batch layer answers, from complete data; from it on the stream does.
    final as (

        select kappa_finality.table_name, greatest(kappa_finality.closed_until, fence.complete_until) as closed_until
        from kappa_finality
        cross join fence

    )

select *
from final
