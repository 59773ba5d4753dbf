-- By how much each of some ranks is above what is usual in a phase, without its waits for other ranks: the
-- median over its steps of what it took beyond the median of all these ranks in the same step (of two
-- the lower one), and in how many steps it was half of that or more.
WITH phase_time AS (
    SELECT process, step, 'data' AS phase, data_ns AS wall_ns, data_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'forward' AS phase, forward_ns AS wall_ns, forward_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'backward' AS phase, backward_ns - (wait_ns - communication_ns) AS wall_ns, backward_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'optimizer' AS phase, optimizer_ns AS wall_ns, optimizer_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'zero_grad' AS phase, zero_grad_ns AS wall_ns, zero_grad_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'checkpoint' AS phase, checkpoint_ns AS wall_ns, checkpoint_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'compile' AS phase, compile_ns AS wall_ns, compile_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'evaluation' AS phase, evaluation_ns AS wall_ns, evaluation_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
    UNION ALL
    SELECT process, step, 'other' AS phase, other_ns AS wall_ns, other_cpu_ns AS cpu_ns
    FROM step WHERE process IN ({processes})
), usual AS (
    SELECT step, phase, CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY wall_ns) AS BIGINT) AS wall_ns,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY cpu_ns) AS BIGINT) AS cpu_ns
    FROM phase_time GROUP BY step, phase
), beyond AS (
    SELECT phase_time.process AS process, phase_time.phase AS phase, usual.wall_ns AS usual_ns, usual.cpu_ns AS usual_cpu_ns,
           phase_time.wall_ns - usual.wall_ns AS wall_ns, phase_time.cpu_ns - usual.cpu_ns AS cpu_ns
    FROM phase_time JOIN usual ON usual.step = phase_time.step AND usual.phase = phase_time.phase
), excess AS (
    SELECT process, phase, count(*) AS steps,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY wall_ns) AS BIGINT) AS wall_ns,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY cpu_ns) AS BIGINT) AS cpu_ns,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY usual_ns) AS BIGINT) AS usual_ns,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY usual_cpu_ns) AS BIGINT) AS usual_cpu_ns
    FROM beyond GROUP BY process, phase
)
SELECT excess.process AS process, excess.phase AS phase, max(excess.steps) AS steps,
       max(excess.usual_ns) AS usual_ns, max(excess.usual_cpu_ns) AS usual_cpu_ns, max(excess.wall_ns) AS wall_ns, max(excess.cpu_ns) AS cpu_ns,
       sum(CASE WHEN 2 * beyond.wall_ns >= excess.wall_ns THEN 1 ELSE 0 END) AS wall_steps,
       sum(CASE WHEN 2 * beyond.cpu_ns >= excess.cpu_ns THEN 1 ELSE 0 END) AS cpu_steps
FROM excess JOIN beyond ON beyond.process = excess.process AND beyond.phase = excess.phase
GROUP BY excess.process, excess.phase ORDER BY phase, process
