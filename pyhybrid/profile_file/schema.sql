-- The profile file, PREFIX.pyhybrid: one SQLite database.
-- Times are CLOCK_MONOTONIC nanoseconds; weights are nanoseconds of the sampling clock.
-- Ids are unique in the file.  What something is, several processes may share: module, frame, node, stack, and what
-- is told of frames have no process, so that a function or a call path is one row, however many processes run it.
-- Figures are those of a process: thread, sampled, exact, call, line, timeline and the like carry it.
-- An exact time (counted by events) that stands in one row with sampled ones, in `report --json`, a data frame or a
-- page, has the prefix exact_: exact_self_ns beside self_ns.  A table of one half needs none, nor do calls, which
-- samples cannot tell.
PRAGMA application_id = 0x50594842; -- "PYHB"
PRAGMA user_version = 5;            -- the schema version

-- What the profiled process said of itself (version, argv, clock, engine, hz, period_ns, ...) and of its
-- host (machine.py), and
-- from finishing: complete (false: it was killed), kernel_lost (ticks of which it is not known where
-- in the kernel they came), kernel_mute (clocks that could not say that), unaccounted_ns (CPU time of the
-- process, without ours, that no sample stands for, nor a lost or missed one), kernel_text ([start, end] of the
-- kernel's code, or null), kernel_build_id, perf_map and jitdumps (files in which other runtimes named their code), n_cpus, notes,
-- main_delay_ns (for how long the main thread was ready but had no processor), throttled and throttled_ns (how often and for how
-- long the quota of its container held it back, all processors together),
-- cells (of a notebook: what their functions have as their file, by the file that IPython named for it),
-- decorated (functions during whose calls alone anything counted; none: no such limit), unplaced_regions and
-- unmatched_regions (pushes by native code that could not be counted; pops of what was not open), end_cpu_ns (CPU time of the process after the end of profiling, until it
-- waited for its profile), sources (of the program's own files: `hash` of
-- the text at the end, and `stale`, the lines that ran when it was another one), other_tools (was there one
-- of sys.monitoring, sys.settrace or sys.setprofile?), counters and metadata (that
-- native code gave: the views `counter` and `metadata`), unsampled_calls (nodes of native functions that called what led to
-- Python also from places that no stack has).  call_cost_ns: what
-- counting adds to a call, measured at start, call_cost_inside_ns: the part that is charged to the
-- function itself, not to its caller; null: not known.  counting_more_ns: what calls from C code, new paths and new
-- threads took beyond that, by those that were timed; absent: it was killed.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID; -- value: JSON

-- Counters that native code sampled (pyhybrid.h, PerfStubs), and facts that it told.
CREATE VIEW counter AS
    SELECT value ->> 'name' AS name, value ->> 'n' AS n, value ->> 'sum' AS sum, value ->> 'min' AS min,
           value ->> 'max' AS max, value ->> 'sum_of_squares' AS sum_of_squares
    FROM json_each((SELECT value FROM meta WHERE key = 'counters'));
CREATE VIEW metadata AS
    SELECT key AS name, value FROM json_each((SELECT value FROM meta WHERE key = 'metadata'));

CREATE TABLE process (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, executable TEXT, argv TEXT, -- argv: JSON list
    start_ns INTEGER, end_ns INTEGER, -- end_ns NULL: it was killed
    cpu_ns INTEGER, n_forked INTEGER, n_spawned INTEGER);

-- Where the file is of several processes (`pyhybrid merge`): what each said of itself that `meta` does not say of all.
CREATE TABLE process_meta (
    process INTEGER NOT NULL REFERENCES process, key TEXT NOT NULL, value TEXT NOT NULL, -- value: JSON
    PRIMARY KEY (process, key)) WITHOUT ROWID;

CREATE TABLE thread (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    tid INTEGER NOT NULL, name TEXT NOT NULL, comm TEXT NOT NULL, -- name: threading's, else comm
    start_ns INTEGER, first_ns INTEGER, last_ns INTEGER, cpu_ns INTEGER,
    signals INTEGER NOT NULL, recorded INTEGER NOT NULL, -- signals = recorded + its rows in loss
    recorded_weight_ns INTEGER NOT NULL, missed_weight_ns INTEGER NOT NULL,
    handler_ns TEXT); -- JSON: histogram of the handler's time, spool.h SPOOL_HISTOGRAM

CREATE TABLE loss (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    reason TEXT NOT NULL, samples INTEGER NOT NULL, weight_ns INTEGER NOT NULL);

CREATE TABLE module (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, build_id TEXT, base INTEGER NOT NULL,
    load_ns INTEGER, unload_ns INTEGER);

CREATE TABLE segment (
    module INTEGER NOT NULL REFERENCES module, start INTEGER NOT NULL, size INTEGER NOT NULL,
    file_offset INTEGER NOT NULL, flags INTEGER NOT NULL);

-- A function.  kind: python, native, kernel, pseudo, or region (pyhybrid.region; an object: a PyTorch module of a
-- model, whose name is its path; or the backward work for one).  Python functions are one by (name, file, line),
-- native ones by (module's path and build-id, address), code in no module by address.
CREATE TABLE frame (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL,
    name TEXT NOT NULL,                   -- qualname, demangled symbol, or [pseudo]
    file TEXT, line INTEGER,              -- python: file name and first line; kernel: file is its module
    module INTEGER REFERENCES module,     -- native; null: code in no module (a JIT compiler's)
    address INTEGER, size INTEGER,        -- native: the function's start, module-relative; without a module,
                                          -- and of the kernel: absolute (64 bits with sign)
    symbol TEXT,                          -- native, kernel: the name as it stands in the table; exported data:
                                          -- an object's name and the place in it (slot_names.py);
                                          -- pseudo: which, as a word (pseudo.py); an object: its class;
                                          -- backward work: the path of the object
    source TEXT NOT NULL,                 -- code, symtab, debug file, debugdata, dynsym, plt, exported data, method table,
                                          -- role (thread_starts.py), fde, jit map, jitdump (jit.py), kallsyms, none,
                                          -- pseudo, region; object: of an object's region; backward
    python_name TEXT);                    -- native: by which Python reaches it (torch._C._nn.linear), as the
                                          -- interpreter's method tables said when the program ended

-- A call path, function by function.  Parents have smaller ids; parent 0 is the root.
CREATE TABLE node (
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, frame INTEGER NOT NULL REFERENCES frame);

-- A call path, address by address; node is its projection.  Rows that stand for no frame of a call
-- (tree.py, "Phantoms") are nobody's parent.
CREATE TABLE stack (
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, node INTEGER NOT NULL REFERENCES node,
    address INTEGER,  -- native, kernel: absolute (64 bits with sign)
    offset INTEGER,   -- python: instruction offset in code units
    line INTEGER);    -- python: the line

-- Self figures; inclusive ones are derived.  gil: 'held', 'waiting' (the thread slept until it would get
-- the GIL) or 'neither'.  waits: 1 where the thread was off the CPU, which wall-clock time sees.
CREATE TABLE sampled (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    stack INTEGER NOT NULL REFERENCES stack, gil TEXT NOT NULL, waits INTEGER NOT NULL,
    samples INTEGER NOT NULL, weight_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, stack, gil, waits)) WITHOUT ROWID;

-- What the events of sys.monitoring counted of Python functions, path by path, and with --c-calls of C
-- functions that Python functions called (native nodes, children of their callers'); never added to
-- samples.  total_ns is wall time (by the TSC) of all activations of the path; self_ns without what
-- they called.  A generator that is suspended is charged nothing; resumes are its later turns.
-- All times include what counting took.  seeded: activations that had begun before profiling did,
-- timed from its start.
CREATE TABLE exact (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node INTEGER NOT NULL REFERENCES node, calls INTEGER NOT NULL, resumes INTEGER NOT NULL,
    raised INTEGER NOT NULL, seeded INTEGER NOT NULL,
    total_ns INTEGER NOT NULL, self_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, node)) WITHOUT ROWID;

-- The nodes of `exact` whose function is on their path already: what calls take there is part of an outer one's
-- total_ns.
CREATE TABLE recursive_node (node INTEGER PRIMARY KEY REFERENCES node);

-- The backward pass of PyTorch: how often autograd nodes ran, and how long, by the call path that made them, on the
-- thread that did.  self_ns is wall time without the nodes that ran within (of a checkpoint); on a GPU it is that of launching.
-- thread, node 0: of nodes of which it is not known, and of those that accumulate gradients, which no call makes.
CREATE TABLE backward (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL, node INTEGER NOT NULL,
    name TEXT NOT NULL, -- of the autograd node: AddmmBackward0
    calls INTEGER NOT NULL, self_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, node, name)) WITHOUT ROWID;

-- Single calls of the functions chosen with -t and --keep, and of regions.  A generator's or coroutine's call lies
-- between its first begin and its last end, in several turns, and busy_ns is the time of these.  state: returned,
-- raised, or partial (it began before profiling did, or went on after it).  parent: the innermost call in this table that
-- it began in, on the same thread.  weight: how many calls it stands for.  1: itself; all are in the file, or it is one
-- of the slowest of its path.  More (a power of two): beyond --max-calls it is one of a uniform sample of all others, so that sums of
-- weights are estimates of what happened; call_time has the exact figures.
CREATE TABLE call (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    thread INTEGER NOT NULL REFERENCES thread, node INTEGER NOT NULL REFERENCES node,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, busy_ns INTEGER NOT NULL,
    state TEXT NOT NULL, attributes TEXT, -- JSON: a region's, or a call's arguments, as texts
    parent INTEGER REFERENCES call, weight INTEGER NOT NULL);

-- What a kept call used, with --usage; null: not asked for.  Of its thread: CPU time so far when it began and when it
-- ended, and what it used itself, in all its turns: CPU time, page faults, context switches; and user and system time, which
-- the kernel counts by its ticks (1 to 10 ms), so of short calls only sums over many mean something.  Of the process, all threads
-- together: CPU time meanwhile, and its resident memory, in bytes, when the call began and when it ended.
CREATE TABLE usage (
    process INTEGER NOT NULL REFERENCES process, call INTEGER NOT NULL REFERENCES call,
    cpu_begin_ns INTEGER, cpu_end_ns INTEGER, cpu_ns INTEGER, user_ns INTEGER, system_ns INTEGER, process_ns INTEGER,
    minor_faults INTEGER, major_faults INTEGER, voluntary_switches INTEGER, involuntary_switches INTEGER,
    resident_begin INTEGER, resident_end INTEGER, PRIMARY KEY (process, call)) WITHOUT ROWID;

-- What is told of a function whose calls are kept.  arguments, other_locals: JSON lists of names.
CREATE TABLE code (
    frame INTEGER PRIMARY KEY REFERENCES frame,
    function TEXT NOT NULL, module TEXT NOT NULL, path TEXT NOT NULL, -- name, __name__ where it runs, module.qualname
    file TEXT NOT NULL, line INTEGER NOT NULL, arguments TEXT NOT NULL, other_locals TEXT NOT NULL,
    stack_size INTEGER NOT NULL);

CREATE TABLE turn ( -- of the calls that have several
    process INTEGER NOT NULL REFERENCES process, call INTEGER NOT NULL REFERENCES call,
    thread INTEGER NOT NULL REFERENCES thread, begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL);

-- Single calls of a framework's functions (frameworks/torch.toml, --no-steps), and of those of the program that they call
-- back, by which the steps of a training are told.  cpu_...: the thread's CPU time so far.
CREATE TABLE watched_call (
    thread INTEGER NOT NULL REFERENCES thread, node INTEGER NOT NULL REFERENCES node,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    cpu_begin_ns INTEGER NOT NULL, cpu_end_ns INTEGER NOT NULL,
    raised INTEGER NOT NULL); -- 1: it ended by an exception

-- Work of a GPU that calls launched (`pyhybrid import kineto`): sums by call path; node 0: below no call that is known.
-- name: the kernel's, or what was copied; after `[graph] `: what a CUDA graph replayed.  backward: 1: the backward pass
-- of what the call did in the forward pass.
CREATE TABLE gpu (
    id INTEGER PRIMARY KEY, node INTEGER NOT NULL, backward INTEGER NOT NULL, name TEXT NOT NULL,
    device INTEGER NOT NULL, stream INTEGER NOT NULL, launches INTEGER NOT NULL, ns INTEGER NOT NULL);

-- When each kernel and copy ran on the GPU, and when it was launched (null: not known): the longest 200,000; the others
-- are in the sums alone.
CREATE TABLE gpu_activity (
    work INTEGER NOT NULL REFERENCES gpu, begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, launch_ns INTEGER);

-- Calls of CUDA that waited for a GPU, by the call path that made them (node 0: not known): wall-clock time.
CREATE TABLE gpu_wait (node INTEGER NOT NULL, name TEXT NOT NULL, calls INTEGER NOT NULL, ns INTEGER NOT NULL);

-- The profile's time and that of the day (CLOCK_REALTIME), which the system puts right slowly, at the same moment: one
-- pair a second, with --events and --gpu.
CREATE TABLE clock_pair (time_ns INTEGER NOT NULL, unix_ns INTEGER NOT NULL);

-- When the work of the GPU was recorded: of other times nothing is known.
CREATE TABLE gpu_window (begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL);

-- How long the calls of such a path took, all that began and ended while profiling ran.
CREATE TABLE call_time (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node INTEGER NOT NULL REFERENCES node, calls INTEGER NOT NULL, total_ns INTEGER NOT NULL,
    max_ns INTEGER NOT NULL, histogram TEXT NOT NULL, -- JSON: [[from_ns, calls], ...]
    PRIMARY KEY (process, thread, node)) WITHOUT ROWID;

-- Every begin and end of a Python function or region in order of time (--events): an array of uint64, whose
-- fields are src/trace/event_log.h's; a step of time is tick_ns.
CREATE TABLE event_log (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    first_ns INTEGER NOT NULL, tick_ns REAL NOT NULL, n INTEGER NOT NULL, n_dropped INTEGER NOT NULL,
    events BLOB NOT NULL);

CREATE TABLE event_node ( -- what the events of a thread call node i: the i-th uint32
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node BLOB NOT NULL);

-- The lines of the functions chosen with --lines, path by path (node: the function's).  hits: LINE
-- events, the times that the line was begun (once for a loop that is all on it).  total_ns: wall time
-- from each to the same activation's next one, or to its end or suspension, with all that the line calls:
-- where a function calls itself, its inner activations are part of the outer line's time.  hits 0: a
-- generator was resumed, or a function found running, on it.
CREATE TABLE line (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node INTEGER NOT NULL REFERENCES node, line INTEGER NOT NULL,
    hits INTEGER NOT NULL, total_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, node, line)) WITHOUT ROWID;

-- With --c-calls: the names by which Python calls a C function, as cProfile writes them; several where
-- functions share their code.
CREATE TABLE c_function (
    frame INTEGER NOT NULL REFERENCES frame, name TEXT NOT NULL, PRIMARY KEY (frame, name)) WITHOUT ROWID;

-- Each sample in order of time: dt_ns and place are arrays of n little-endian uint32; weight is an
-- array of (uint32 index, uint32 periods) for the samples whose weight is not one period; cpu one of
-- (uint32 index, uint32 CPU) for the first sample and those on another CPU than the one before.  A place
-- is stack | gil << 28 | waits << 30, with gil 0: neither, 1: held, 2: waiting.  Where the timeline was bounded
-- (--max-timeline), a thread's first row has the older samples: each place once, with all their weight, without times
-- (first_ns is that of the first one) or CPU (4294967295).
CREATE TABLE timeline (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    first_ns INTEGER NOT NULL, n INTEGER NOT NULL,
    dt_ns BLOB NOT NULL, place BLOB NOT NULL, weight BLOB NOT NULL, cpu BLOB NOT NULL);
CREATE INDEX timeline_by_thread ON timeline (thread, first_ns); -- without it all samples would be sorted for that order

-- The questions that come first.  `sqlite3 out.pyhybrid 'select * from hot_function limit 20'`

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
