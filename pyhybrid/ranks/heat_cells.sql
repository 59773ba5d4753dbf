-- What ranks took in each so many steps: the sums of a heat map's cells.
SELECT process, step - step % {every} AS first, count(*) AS steps,
       sum(wall_ns - wait_ns) AS own_ns, sum(wall_ns) AS step_ns, sum(wait_ns) AS wait_ns,
       sum(cpu_ns) AS cpu_ns, sum(gc_ns) AS gc_ns, sum(data_ns) AS data_ns, sum(forward_ns) AS forward_ns,
       sum(backward_ns - (wait_ns - communication_ns)) AS backward_ns,
       sum(optimizer_ns + zero_grad_ns) AS optimizer_ns,
       sum(checkpoint_ns + compile_ns + coalesce(evaluation_ns, 0) + other_ns) AS other_ns
FROM step WHERE process IN ({processes}) GROUP BY process, step - step % {every} ORDER BY process, first
