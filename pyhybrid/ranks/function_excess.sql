-- What functions took in a slow process, and in others, by the phase around them: without waits for
-- other ranks, callees included.
SELECT near_path.function AS function, near_path.phase AS phase, max(near_path.depth) AS depth,
       sum(CASE WHEN near_path.process = {slow} THEN near_path.calls ELSE 0 END) AS calls,
       sum(CASE WHEN near_path.process = {slow} THEN 0 ELSE near_path.calls END) AS others_calls,
       sum(CASE WHEN near_path.process = {slow} AND near_path.outermost
                THEN near_path.exact_total_ns - near_path.wait_ns ELSE 0 END) AS slow_ns,
       sum(CASE WHEN near_path.process = {slow} OR NOT near_path.outermost
                THEN 0 ELSE near_path.exact_total_ns - near_path.wait_ns END) AS others_ns
FROM near_path WHERE near_path.process IN ({slow}, {others}) AND near_path.exact_total_ns > 0
GROUP BY near_path.function, near_path.phase ORDER BY slow_ns DESC, function
