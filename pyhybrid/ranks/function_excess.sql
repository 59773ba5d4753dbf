-- What functions took in a slow process, and in others, by the phase around them: without waits for
-- other ranks, callees included.
SELECT path.function AS function, path.phase AS phase, max(path.depth) AS depth,
       sum(CASE WHEN path.process = {slow} THEN path.calls ELSE 0 END) AS calls,
       sum(CASE WHEN path.process = {slow} THEN 0 ELSE path.calls END) AS others_calls,
       sum(CASE WHEN path.process = {slow} AND path.outermost
                THEN path.exact_total_ns - path.wait_ns ELSE 0 END) AS slow_ns,
       sum(CASE WHEN path.process = {slow} OR NOT path.outermost
                THEN 0 ELSE path.exact_total_ns - path.wait_ns END) AS others_ns
FROM path WHERE path.process IN ({slow}, {others}) AND path.exact_total_ns > 0
GROUP BY path.function, path.phase ORDER BY slow_ns DESC, function
