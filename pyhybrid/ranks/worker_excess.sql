-- What functions of the program took in the workers of a slow rank, and in those of others.
SELECT function.function AS function, max(function.calls) AS calls,
       sum(CASE WHEN process.rank = {slow} THEN function.exact_total_ns ELSE 0 END) AS slow_ns,
       sum(CASE WHEN process.rank = {slow} THEN 0 ELSE function.exact_total_ns END) AS others_ns,
       sum(CASE WHEN process.rank = {slow} THEN function.exact_self_ns ELSE 0 END) AS slow_self_ns
FROM function JOIN process ON process.process = function.process
WHERE process.steps = 0 AND function.own AND process.process IN ({processes})
GROUP BY function.function ORDER BY slow_ns DESC, function
