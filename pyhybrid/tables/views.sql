-- The views of a profile file: the questions that come first.
-- `sqlite3 out.pyhybrid 'select * from hot_function limit 20'`

CREATE VIEW node_self AS -- self figures of call paths, all threads together
SELECT stack.node AS node, sum(sampled.samples) AS samples, sum(sampled.weight_ns) AS weight_ns
FROM sampled JOIN stack ON stack.id = sampled.stack GROUP BY stack.node;

CREATE VIEW hot_function AS -- total_ns counts a recursive function once a sample
WITH RECURSIVE above (node, frame, samples, self_ns, weight_ns, parent) AS (
    SELECT node.id, node.frame, samples, weight_ns, weight_ns, node.parent
    FROM node_self JOIN node ON node.id = node_self.node
    UNION ALL
    SELECT above.node, node.frame, 0, 0, above.weight_ns, node.parent
    FROM above JOIN node ON node.id = above.parent),
once AS (
    SELECT frame, sum(samples) AS samples, sum(self_ns) AS self_ns, max(weight_ns) AS weight_ns
    FROM above GROUP BY node, frame)
SELECT frame.name, frame.file, frame.line, module.path AS module, sum(once.samples) AS samples,
       sum(once.self_ns) AS self_ns, sum(once.weight_ns) AS total_ns
FROM once JOIN frame ON frame.id = once.frame LEFT JOIN module ON module.id = frame.module
GROUP BY once.frame ORDER BY self_ns DESC;

CREATE VIEW function AS -- exact figures, all processes and threads together; total_ns counts recursion once
SELECT frame.name, frame.file, frame.line, frame.kind, sum(calls) AS calls, sum(resumes) AS resumes,
       sum(raised) AS raised, sum(self_ns) AS self_ns,
       sum(CASE WHEN recursive_node.node IS NULL THEN total_ns ELSE 0 END) AS total_ns
FROM exact JOIN node ON node.id = exact.node JOIN frame ON frame.id = node.frame
     LEFT JOIN recursive_node ON recursive_node.node = exact.node
GROUP BY frame.id ORDER BY total_ns DESC;

CREATE VIEW hot_line AS -- all paths and threads together
SELECT frame.name, frame.file, line.line, sum(hits) AS hits, sum(total_ns) AS total_ns
FROM line JOIN node ON node.id = line.node JOIN frame ON frame.id = node.frame
GROUP BY frame.id, line.line ORDER BY total_ns DESC;

CREATE VIEW hot_path AS -- the call paths with most self time, root first
WITH RECURSIVE path (node, at, text, samples, weight_ns) AS (
    SELECT * FROM (
        SELECT node.id, node.parent, frame.name, samples, weight_ns
        FROM node_self JOIN node ON node.id = node_self.node JOIN frame ON frame.id = node.frame
        ORDER BY weight_ns DESC LIMIT 100)
    UNION ALL
    SELECT path.node, node.parent, frame.name || ' > ' || path.text, samples, weight_ns
    FROM path JOIN node ON node.id = path.at JOIN frame ON frame.id = node.frame)
SELECT node, samples, weight_ns, text FROM path WHERE at = 0 ORDER BY weight_ns DESC;

-- Counters that native code sampled (pyhybrid.h, PerfStubs), and facts that it gave.
CREATE VIEW counter AS
    SELECT value ->> 'name' AS name, value ->> 'n' AS n, value ->> 'sum' AS sum, value ->> 'min' AS min,
           value ->> 'max' AS max, value ->> 'sum_of_squares' AS sum_of_squares
    FROM json_each((SELECT value FROM meta WHERE key = 'counters'));
CREATE VIEW metadata AS
    SELECT key AS name, value FROM json_each((SELECT value FROM meta WHERE key = 'metadata'));
