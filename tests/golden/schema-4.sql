PRAGMA application_id = 0x50594842;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE c_function (
    process INTEGER NOT NULL REFERENCES process, frame INTEGER NOT NULL REFERENCES frame,
    name TEXT NOT NULL, PRIMARY KEY (process, frame, name)) WITHOUT ROWID;
CREATE TABLE call (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    thread INTEGER NOT NULL REFERENCES thread, node INTEGER NOT NULL REFERENCES node,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, busy_ns INTEGER NOT NULL,
    state TEXT NOT NULL, attributes TEXT, -- JSON: a region's, or a call's arguments, as texts
    parent INTEGER REFERENCES call, weight INTEGER NOT NULL);
CREATE TABLE call_time (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node INTEGER NOT NULL REFERENCES node, calls INTEGER NOT NULL, total_ns INTEGER NOT NULL,
    max_ns INTEGER NOT NULL, histogram TEXT NOT NULL, -- JSON: [[from_ns, calls], ...]
    PRIMARY KEY (process, thread, node)) WITHOUT ROWID;
CREATE TABLE code (
    process INTEGER NOT NULL REFERENCES process, frame INTEGER NOT NULL REFERENCES frame,
    function TEXT NOT NULL, module TEXT NOT NULL, path TEXT NOT NULL, -- name, __name__ where it runs, module.qualname
    file TEXT NOT NULL, line INTEGER NOT NULL, arguments TEXT NOT NULL, other_locals TEXT NOT NULL,
    stack_size INTEGER NOT NULL, PRIMARY KEY (process, frame)) WITHOUT ROWID;
CREATE TABLE event_log (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    first_ns INTEGER NOT NULL, tick_ns REAL NOT NULL, n INTEGER NOT NULL, n_dropped INTEGER NOT NULL,
    events BLOB NOT NULL);
CREATE TABLE event_node ( -- what the events of a thread call node i: the i-th uint32
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node BLOB NOT NULL);
CREATE TABLE exact (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node INTEGER NOT NULL REFERENCES node, calls INTEGER NOT NULL, resumes INTEGER NOT NULL,
    raised INTEGER NOT NULL, seeded INTEGER NOT NULL,
    total_ns INTEGER NOT NULL, self_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, node)) WITHOUT ROWID;
CREATE TABLE frame (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process, kind TEXT NOT NULL,
    name TEXT NOT NULL,                   -- qualname, demangled symbol, or [pseudo]
    file TEXT, line INTEGER,              -- python: file name and first line; kernel: file is its module
    module INTEGER REFERENCES module,     -- native; null: code in no module (a JIT compiler's)
    address INTEGER, size INTEGER,        -- native: the function's start, module-relative; without a module,
                                          -- and of the kernel: absolute (64 bits with sign)
    symbol TEXT,                          -- native, kernel: the name as it stands in the table; exported data:
                                          -- an object's name and the place in it (exported_data.py);
                                          -- pseudo: which, as a word (pseudo.py); an object: its class
    source TEXT NOT NULL,                 -- code, symtab, debug file, debugdata, dynsym, plt, exported data, method table,
                                          -- role (starts.py), fde, jit map, jitdump (jit_maps.py), kallsyms, none,
                                          -- pseudo, region; object: of an object's region
    python_name TEXT);
INSERT INTO "frame" VALUES(1,1,'native','[jit]',NULL,NULL,NULL,NULL,NULL,NULL,'none',NULL);
INSERT INTO "frame" VALUES(2,1,'native','_start',NULL,NULL,1,256,32,'_start','symtab',NULL);
INSERT INTO "frame" VALUES(3,1,'native','Py_BytesMain',NULL,NULL,1,512,64,'Py_BytesMain','symtab',NULL);
INSERT INTO "frame" VALUES(4,1,'native','PyEval_EvalCode',NULL,NULL,1,1024,128,'PyEval_EvalCode','symtab',NULL);
INSERT INTO "frame" VALUES(5,1,'native','builtin_sorted',NULL,NULL,1,1280,64,'builtin_sorted','symtab',NULL);
INSERT INTO "frame" VALUES(6,1,'native','_PyObject_MakeTpCall',NULL,NULL,1,1536,64,'_PyObject_MakeTpCall','symtab',NULL);
INSERT INTO "frame" VALUES(7,1,'native','thread_run',NULL,NULL,1,1792,64,'thread_run','symtab',NULL);
INSERT INTO "frame" VALUES(8,1,'native','at::_ops::add::call(at::Tensor const&, c10::Scalar const&)',NULL,NULL,2,4096,256,'_ZN2at4_ops3add4callE','symtab',NULL);
INSERT INTO "frame" VALUES(9,1,'native','at::native::add_stub; odd
name',NULL,NULL,2,8192,128,'_ZN2at6native9add_stubE','debugdata',NULL);
INSERT INTO "frame" VALUES(10,1,'native','libtorch_cpu.so!+0x3000',NULL,NULL,2,12288,NULL,NULL,'fde',NULL);
INSERT INTO "frame" VALUES(11,1,'native','libtorch_cpu.so!?',NULL,NULL,2,NULL,NULL,NULL,'none',NULL);
INSERT INTO "frame" VALUES(12,1,'native','[vdso]!+0x800',NULL,NULL,3,2048,NULL,NULL,'fde',NULL);
INSERT INTO "frame" VALUES(13,1,'python','<module>','/home/me/workload.py',1,NULL,NULL,NULL,NULL,'code',NULL);
INSERT INTO "frame" VALUES(14,1,'python','main.<locals>.step','/home/me/workload.py',10,NULL,NULL,NULL,NULL,'code',NULL);
INSERT INTO "frame" VALUES(15,1,'python','Linear.forward','/opt/python/lib/python3.12/site-packages/torch/nn/modules/linear.py',130,NULL,NULL,NULL,NULL,'code',NULL);
INSERT INTO "frame" VALUES(16,1,'python','__init__','<shim>',0,NULL,NULL,NULL,NULL,'code',NULL);
INSERT INTO "frame" VALUES(17,1,'python','Thread._bootstrap','/opt/python/lib/python3.12/threading.py',990,NULL,NULL,NULL,NULL,'code',NULL);
INSERT INTO "frame" VALUES(18,1,'pseudo','[truncated]',NULL,NULL,NULL,NULL,NULL,'truncated','pseudo',NULL);
INSERT INTO "frame" VALUES(19,1,'pseudo','[unwind gap]',NULL,NULL,NULL,NULL,NULL,'gap','pseudo',NULL);
CREATE TABLE line (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    node INTEGER NOT NULL REFERENCES node, line INTEGER NOT NULL,
    hits INTEGER NOT NULL, total_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, node, line)) WITHOUT ROWID;
CREATE TABLE loss (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    reason TEXT NOT NULL, samples INTEGER NOT NULL, weight_ns INTEGER NOT NULL);
INSERT INTO "loss" VALUES(1,1,'ring_full',2,2000000);
INSERT INTO "loss" VALUES(1,1,'too_slow',1,1000000);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('arch','"x86_64"');
INSERT INTO "meta" VALUES('argv','["workload.py", "--steps", "3"]');
INSERT INTO "meta" VALUES('clock','"cpu"');
INSERT INTO "meta" VALUES('complete','true');
INSERT INTO "meta" VALUES('cwd','"/home/me"');
INSERT INTO "meta" VALUES('engine','"perf_event"');
INSERT INTO "meta" VALUES('engine_reason','""');
INSERT INTO "meta" VALUES('executable','"/opt/python/bin/python3.12"');
INSERT INTO "meta" VALUES('hostname','"host"');
INSERT INTO "meta" VALUES('hz','1000');
INSERT INTO "meta" VALUES('hz_asked','1000');
INSERT INTO "meta" VALUES('kernel_build_id','null');
INSERT INTO "meta" VALUES('kernel_lost','0');
INSERT INTO "meta" VALUES('kernel_mute','0');
INSERT INTO "meta" VALUES('kernel_text','null');
INSERT INTO "meta" VALUES('mode','"sample"');
INSERT INTO "meta" VALUES('n_cpus','2');
INSERT INTO "meta" VALUES('notes','[]');
INSERT INTO "meta" VALUES('os_release','"6.18.0"');
INSERT INTO "meta" VALUES('period_ns','1000000');
INSERT INTO "meta" VALUES('pid','5003288');
INSERT INTO "meta" VALUES('python','"3.12.1"');
INSERT INTO "meta" VALUES('start_ns','1000000000');
INSERT INTO "meta" VALUES('start_unix_ns','1700000000000000000');
INSERT INTO "meta" VALUES('unwinder','"cfi"');
INSERT INTO "meta" VALUES('version','"0.1.0"');
CREATE TABLE module (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    path TEXT NOT NULL, build_id TEXT, base INTEGER NOT NULL, load_ns INTEGER, unload_ns INTEGER);
INSERT INTO "module" VALUES(1,1,'/opt/python/lib/libpython3.12.so.1.0','0101010101010101010101010101010101010101',139637976727552,0,NULL);
INSERT INTO "module" VALUES(2,1,'/opt/python/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so','0202020202020202020202020202020202020202',139706696204288,0,NULL);
INSERT INTO "module" VALUES(3,1,'[vdso]',NULL,140733193388032,0,NULL);
CREATE TABLE node (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    parent INTEGER NOT NULL, frame INTEGER NOT NULL REFERENCES frame);
INSERT INTO "node" VALUES(1,1,0,2);
INSERT INTO "node" VALUES(2,1,1,3);
INSERT INTO "node" VALUES(3,1,2,4);
INSERT INTO "node" VALUES(4,1,3,13);
INSERT INTO "node" VALUES(5,1,4,5);
INSERT INTO "node" VALUES(6,1,5,6);
INSERT INTO "node" VALUES(7,1,6,14);
INSERT INTO "node" VALUES(8,1,7,15);
INSERT INTO "node" VALUES(9,1,8,8);
INSERT INTO "node" VALUES(10,1,9,9);
INSERT INTO "node" VALUES(11,1,9,10);
INSERT INTO "node" VALUES(12,1,9,11);
INSERT INTO "node" VALUES(13,1,9,19);
INSERT INTO "node" VALUES(14,1,13,1);
INSERT INTO "node" VALUES(15,1,7,16);
INSERT INTO "node" VALUES(16,1,2,5);
INSERT INTO "node" VALUES(17,1,0,18);
INSERT INTO "node" VALUES(18,1,17,15);
INSERT INTO "node" VALUES(19,1,0,7);
INSERT INTO "node" VALUES(20,1,19,17);
INSERT INTO "node" VALUES(21,1,20,12);
CREATE TABLE process (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, executable TEXT, argv TEXT, -- argv: JSON list
    start_ns INTEGER, end_ns INTEGER, -- end_ns NULL: it was killed
    cpu_ns INTEGER, n_forked INTEGER, n_spawned INTEGER);
INSERT INTO "process" VALUES(1,5003288,'/opt/python/bin/python3.12','["workload.py", "--steps", "3"]',1000000000,3000000000,1500000000,2,1);
CREATE TABLE sampled (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    stack INTEGER NOT NULL REFERENCES stack, gil TEXT NOT NULL, waits INTEGER NOT NULL,
    samples INTEGER NOT NULL, weight_ns INTEGER NOT NULL,
    PRIMARY KEY (process, thread, stack, gil, waits)) WITHOUT ROWID;
INSERT INTO "sampled" VALUES(1,1,3,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,10,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,11,'neither',0,1,4000000);
INSERT INTO "sampled" VALUES(1,1,12,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,13,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,15,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,16,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,17,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,18,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,1,20,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,2,22,'neither',0,1,1000000);
INSERT INTO "sampled" VALUES(1,2,23,'neither',0,1,1000000);
CREATE TABLE segment (
    module INTEGER NOT NULL REFERENCES module, process INTEGER NOT NULL REFERENCES process,
    start INTEGER NOT NULL, size INTEGER NOT NULL, file_offset INTEGER NOT NULL, flags INTEGER NOT NULL);
INSERT INTO "segment" VALUES(1,1,139637976727552,1048576,0,5);
INSERT INTO "segment" VALUES(2,1,139706696204288,1048576,0,5);
INSERT INTO "segment" VALUES(3,1,140733193388032,4096,0,5);
CREATE TABLE stack (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    parent INTEGER NOT NULL, node INTEGER NOT NULL REFERENCES node,
    address INTEGER,  -- native, kernel: absolute (64 bits with sign)
    offset INTEGER,   -- python: instruction offset in code units
    line INTEGER);
INSERT INTO "stack" VALUES(1,1,0,1,139637976727824,NULL,NULL);
INSERT INTO "stack" VALUES(2,1,1,2,139637976728080,NULL,NULL);
INSERT INTO "stack" VALUES(3,1,2,3,139637976728592,NULL,NULL);
INSERT INTO "stack" VALUES(4,1,3,4,NULL,9,3);
INSERT INTO "stack" VALUES(5,1,4,5,139637976728848,NULL,NULL);
INSERT INTO "stack" VALUES(6,1,5,6,139637976729104,NULL,NULL);
INSERT INTO "stack" VALUES(7,1,6,7,NULL,6,NULL);
INSERT INTO "stack" VALUES(8,1,7,8,NULL,3,NULL);
INSERT INTO "stack" VALUES(9,1,8,9,139706696208400,NULL,NULL);
INSERT INTO "stack" VALUES(10,1,9,10,139706696212496,NULL,NULL);
INSERT INTO "stack" VALUES(11,1,9,10,139706696212504,NULL,NULL);
INSERT INTO "stack" VALUES(12,1,9,11,139706696216592,NULL,NULL);
INSERT INTO "stack" VALUES(13,1,9,12,139706696220688,NULL,NULL);
INSERT INTO "stack" VALUES(14,1,9,13,NULL,NULL,NULL);
INSERT INTO "stack" VALUES(15,1,14,14,138538465099840,NULL,NULL);
INSERT INTO "stack" VALUES(16,1,7,15,NULL,1,NULL);
INSERT INTO "stack" VALUES(17,1,7,8,NULL,1,NULL);
INSERT INTO "stack" VALUES(18,1,2,16,139637976728848,NULL,NULL);
INSERT INTO "stack" VALUES(19,1,0,17,NULL,NULL,NULL);
INSERT INTO "stack" VALUES(20,1,19,18,NULL,3,NULL);
INSERT INTO "stack" VALUES(21,1,0,19,139637976729360,NULL,NULL);
INSERT INTO "stack" VALUES(22,1,21,20,NULL,2,NULL);
INSERT INTO "stack" VALUES(23,1,22,21,140733193390096,NULL,NULL);
CREATE TABLE thread (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES process,
    tid INTEGER NOT NULL, name TEXT NOT NULL, comm TEXT NOT NULL, -- name: threading's, else comm
    start_ns INTEGER, first_ns INTEGER, last_ns INTEGER, cpu_ns INTEGER,
    signals INTEGER NOT NULL, recorded INTEGER NOT NULL, -- signals = recorded + its rows in loss
    recorded_weight_ns INTEGER NOT NULL, missed_weight_ns INTEGER NOT NULL,
    handler_ns TEXT);
INSERT INTO "thread" VALUES(1,1,5003288,'MainThread','python',1000000000,2000000000,2009000000,16000000,13,10,13000000,0,'[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]');
INSERT INTO "thread" VALUES(2,1,4250,'loader;1','python',1000000000,2000500000,2001500000,2000000,2,2,2000000,1000000,'[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]');
CREATE TABLE timeline (
    process INTEGER NOT NULL REFERENCES process, thread INTEGER NOT NULL REFERENCES thread,
    first_ns INTEGER NOT NULL, n INTEGER NOT NULL,
    dt_ns BLOB NOT NULL, place BLOB NOT NULL, weight BLOB NOT NULL, cpu BLOB NOT NULL);
INSERT INTO "timeline" VALUES(1,1,2000000000,10,X'0000000040420F0040420F0040420F0040420F0040420F0040420F0040420F0040420F0040420F00',X'0A0000000B0000000C0000000D0000000F0000001100000010000000120000000300000014000000',X'0100000004000000',X'0000000000000000');
INSERT INTO "timeline" VALUES(1,2,2000500000,2,X'0000000040420F00',X'1600000017000000',X'',X'0000000000000000');
CREATE TABLE turn ( -- of the calls that have several
    process INTEGER NOT NULL REFERENCES process, call INTEGER NOT NULL REFERENCES call,
    thread INTEGER NOT NULL REFERENCES thread, begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL);
CREATE TABLE usage (
    process INTEGER NOT NULL REFERENCES process, call INTEGER NOT NULL REFERENCES call,
    cpu_begin_ns INTEGER, cpu_end_ns INTEGER, user_ns INTEGER, system_ns INTEGER, process_ns INTEGER,
    minor_faults INTEGER, major_faults INTEGER, voluntary_switches INTEGER, involuntary_switches INTEGER,
    resident_begin INTEGER, resident_end INTEGER, PRIMARY KEY (process, call)) WITHOUT ROWID;
CREATE VIEW counter AS
    SELECT value ->> 'name' AS name, value ->> 'n' AS n, value ->> 'sum' AS sum, value ->> 'min' AS min,
           value ->> 'max' AS max, value ->> 'sum_of_squares' AS sum_of_squares
    FROM json_each((SELECT value FROM meta WHERE key = 'counters'));
CREATE VIEW metadata AS
    SELECT key AS name, value FROM json_each((SELECT value FROM meta WHERE key = 'metadata'));
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
INSERT INTO code VALUES(1,14,'step','__main__','__main__.main.<locals>.step','/home/me/workload.py',10,'["x"]','["y"]',3);
COMMIT;
