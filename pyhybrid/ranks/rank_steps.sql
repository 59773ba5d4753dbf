-- Sums of each process over its steps, in one pass over all of them.
SELECT process, count(*) AS steps, sum(wall_ns) AS wall_ns, sum(cpu_ns) AS cpu_ns, sum(wait_ns) AS wait_ns,
       sum(gc_ns) AS gc_ns, sum(data_ns) AS data_ns, sum(data_cpu_ns) AS data_cpu_ns,
       sum(forward_ns) AS forward_ns, sum(forward_cpu_ns) AS forward_cpu_ns,
       sum(backward_ns - (wait_ns - communication_ns)) AS backward_ns,
       sum(backward_cpu_ns) AS backward_cpu_ns, sum(optimizer_ns + zero_grad_ns) AS optimizer_ns,
       sum(optimizer_cpu_ns + zero_grad_cpu_ns) AS optimizer_cpu_ns,
       sum(checkpoint_ns + compile_ns + coalesce(evaluation_ns, 0) + other_ns) AS other_ns,
       sum(checkpoint_cpu_ns + compile_cpu_ns + coalesce(evaluation_cpu_ns, 0) + other_cpu_ns) AS other_cpu_ns,
       sum(tokens) AS tokens, sum(CASE WHEN tokens IS NULL THEN 0 ELSE wall_ns END) AS tokens_wall_ns,
       sum(CASE WHEN tokens IS NULL THEN 0 ELSE 1 END) AS tokens_steps
FROM step WHERE process IN ({processes}) GROUP BY process ORDER BY process
