-- What functions of the program took in some processes, callees included, without waits for other ranks.
SELECT near_path.function AS function, sum(near_path.calls) AS calls,
       sum(CASE WHEN near_path.outermost
           THEN near_path.exact_total_ns - near_path.wait_ns ELSE 0 END) AS total_ns,
       sum(near_path.exact_self_ns) AS self_ns
FROM near_path WHERE near_path.exact_total_ns > 0
GROUP BY near_path.function ORDER BY total_ns DESC, function
