-- Results of the lab. A run is one `lab run`; a cell is one execution of a workload on a target. All
-- times are UTC. PRAGMA user_version is the version of this schema; a file with a newer one is refused.

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

-- Parameters of the workload, as in force.
CREATE TABLE parameter (
  cell INTEGER NOT NULL REFERENCES cell(id), name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (cell, name)
) WITHOUT ROWID;

-- Settings of the target that differ from its defaults.
CREATE TABLE setting (
  cell INTEGER NOT NULL REFERENCES cell(id), name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (cell, name)
) WITHOUT ROWID;

-- Values of metrics, which metric.rs defines. `step` is a step of the workload; '' for the whole cell.
CREATE TABLE metric (
  cell INTEGER NOT NULL REFERENCES cell(id), step TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (cell, step, name)
) WITHOUT ROWID;

-- Series with one point per second. `t` is seconds since the step started. `name` is, as totals since
-- then: ops, cpu_s, cpu_user_s, cpu_system_s, written_b, read_b, read_ios, write_ios, or a kind of
-- request such as add_link; as values of that second: rss_b, disk_b, p99_us, and busy (clients of an
-- open loop in a request).
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

-- Counters of the engine and the kernel, every 10 s (60 s at published) and at the start and end of a
-- step. `source` is global_status, engine_status, innodb_metrics, frond_cmp, proc_io, diskstats,
-- cgroup_…, …. A value equal to the previous one is not stored again, nor is a zero at the start.
CREATE TABLE counter (
  cell INTEGER NOT NULL REFERENCES cell(id), step TEXT NOT NULL, t REAL NOT NULL, source TEXT NOT NULL,
  name TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (cell, step, source, name, t)
) WITHOUT ROWID;

-- Verifications. `name` is counts, checksum by PRIMARY, counts of links, frond check, …
CREATE TABLE verification (
  cell INTEGER NOT NULL REFERENCES cell(id), name TEXT NOT NULL, passed INTEGER NOT NULL, detail TEXT NOT NULL,
  PRIMARY KEY (cell, name)
) WITHOUT ROWID;
