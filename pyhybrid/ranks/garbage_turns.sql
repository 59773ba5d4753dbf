-- What garbage collections cost all ranks of a run: in each step the longest one's beyond the usual.
WITH of_step AS (
    SELECT step, max(wall_ns) AS wall_ns, max(gc_ns) AS most_ns, max_by(process, gc_ns) AS process,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY gc_ns) AS BIGINT) AS usual_ns
    FROM step WHERE process IN ({processes}) GROUP BY step
), of_rank AS (
    SELECT process, sum(wall_ns) AS wall_ns, sum(most_ns - usual_ns) AS gc_ns,
           sum(CASE WHEN most_ns > usual_ns THEN 1 ELSE 0 END) AS steps
    FROM of_step GROUP BY process
)
SELECT sum(wall_ns) AS wall_ns, sum(gc_ns) AS gc_ns, sum(gc_ns) - max(gc_ns) AS but_one_ns,
       count(CASE WHEN steps > 0 THEN process END) AS ranks, sum(steps) AS steps
FROM of_rank
