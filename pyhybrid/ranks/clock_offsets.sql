-- By how much the clocks of hosts are ahead of the first one's: by the ends of calls that wait for other ranks,
-- which are common to all; of several ranks of a host, and of all steps, the median, and the quartiles.
WITH of_host AS (
    SELECT process.host AS host, wait.step AS step, wait.function AS function,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY wait.end_ns) AS BIGINT) AS end_ns
    FROM wait JOIN process ON process.process = wait.process
    WHERE wait.process IN ({processes}) AND wait.end_ns IS NOT NULL
    GROUP BY process.host, wait.step, wait.function
), beside AS (
    SELECT of_host.host AS host, of_host.end_ns - first_host.end_ns AS ahead_ns
    FROM of_host JOIN of_host AS first_host
    ON first_host.step = of_host.step AND first_host.function = of_host.function
    WHERE first_host.host = {host} AND of_host.host <> {host}
)
SELECT host, count(*) AS ends,
       CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY ahead_ns) AS BIGINT) AS ahead_ns,
       CAST(percentile_disc(0.25) WITHIN GROUP (ORDER BY ahead_ns) AS BIGINT) AS low_ns,
       CAST(percentile_disc(0.75) WITHIN GROUP (ORDER BY ahead_ns) AS BIGINT) AS high_ns
FROM beside GROUP BY host ORDER BY host
