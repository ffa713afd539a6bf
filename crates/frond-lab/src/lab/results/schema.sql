-- Results of the lab. A run is one `lab run`; a cell is one workload on one target, once. All times are UTC.
-- The version of this schema is PRAGMA user_version; a file of a newer one is refused.

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,        -- random; the same run imported twice is one run
  suite TEXT NOT NULL,             -- name of a suite, or of the one workload
  size TEXT NOT NULL,              -- tiny, quick, standard, published
  class TEXT NOT NULL,             -- storage class: host, hdd, sata, …
  durability TEXT NOT NULL,        -- safe, relaxed, lazy, hist-unsafe
  seed INTEGER NOT NULL,
  command TEXT NOT NULL,           -- as it was typed
  began TEXT NOT NULL,             -- ISO 8601
  ended TEXT,                      -- NULL while it runs, or if it was killed
  machine TEXT NOT NULL            -- short hash of CPU, memory, kernel, device, file system: what may be compared
);

-- Machine and software: cpu, memory_b, kernel, device, file_system, commit, build, fio.*, …
CREATE TABLE environment (
  run INTEGER NOT NULL REFERENCES run(id), name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;

CREATE TABLE cell (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  workload TEXT NOT NULL,          -- name in `lab list`
  variant TEXT NOT NULL,           -- what --set changed, `poll=0.75 rows=1000`; empty for the defaults of the size
  face TEXT NOT NULL,              -- sql or embedded: never in one chart
  target TEXT NOT NULL,            -- innodb, frond, frond@1a2b3c4, rocksdb, …
  repeat INTEGER NOT NULL,         -- from 1
  position INTEGER NOT NULL,       -- in the order of the run
  state TEXT NOT NULL,             -- done, stopped (at its time limit), failed
  failure TEXT,                    -- why, in one sentence
  began TEXT NOT NULL,
  seconds REAL NOT NULL,
  memory_b INTEGER NOT NULL,       -- what the target was given, bytes
  version TEXT NOT NULL,           -- engine and version
  log_tail TEXT,                   -- last lines of the server's log
  UNIQUE (run, workload, variant, face, target, repeat)
);

-- Parameters of the workload, effective.
CREATE TABLE parameter (
  cell INTEGER NOT NULL REFERENCES cell(id), name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (cell, name)
) WITHOUT ROWID;

-- Settings of the target that differ from its defaults.
CREATE TABLE setting (
  cell INTEGER NOT NULL REFERENCES cell(id), name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (cell, name)
) WITHOUT ROWID;

-- One value: metrics are defined in metric.rs. `step` is a step of the workload, '' for the whole cell.
CREATE TABLE metric (
  cell INTEGER NOT NULL REFERENCES cell(id), step TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (cell, step, name)
) WITHOUT ROWID;

-- Per second: `t` seconds since the step began; value of `name` then: ops (done so far), rss_b, cpu_s, client_cpu_s,
-- written_b, read_b (since the step began), disk_b, or a series of the workload's own (add_link: operations done so far).
CREATE TABLE series (
  cell INTEGER NOT NULL REFERENCES cell(id), step TEXT NOT NULL, name TEXT NOT NULL, t REAL NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (cell, step, name, t)
) WITHOUT ROWID;

-- Latencies in ns: HdrHistogram V2, 3 significant digits.
CREATE TABLE histogram (
  cell INTEGER NOT NULL REFERENCES cell(id), step TEXT NOT NULL, operation TEXT NOT NULL,
  count INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (cell, step, operation)
) WITHOUT ROWID;

-- Counters of the engine and the kernel, every 10 s (60 s at published) and at the ends of a step; `source` is
-- global_status, engine_status, innodb_metrics, frond_cmp, proc_io, diskstats, cgroup_…, …. A value that repeats the one
-- before is not kept again, nor a zero at the beginning.
CREATE TABLE counter (
  cell INTEGER NOT NULL REFERENCES cell(id), step TEXT NOT NULL, t REAL NOT NULL, source TEXT NOT NULL,
  name TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (cell, step, source, name, t)
) WITHOUT ROWID;

-- What was verified: `name` is counts, checksum by PRIMARY, counts of links, frond check, …
CREATE TABLE verification (
  cell INTEGER NOT NULL REFERENCES cell(id), name TEXT NOT NULL, passed INTEGER NOT NULL, detail TEXT NOT NULL,
  PRIMARY KEY (cell, name)
) WITHOUT ROWID;
