#!/usr/bin/env python3
"""Runs the server's own tests (package mariadb-test) on two engines of one server, and classifies the
results by how they differ.

  run.py                      all suites
  run.py SUITE... TEST...     some, for example engines/funcs or main.alias
  run.py --selection          those in selection.txt
  --update                    rewrites known.txt, keeping its reasons
  --fresh                     runs the reference again; otherwise its results are kept
  --show                      prints the differences of tests that do not match known.txt
  --judge                     judges the results of the last run, and runs nothing

InnoDB is the reference: what it returns with the same options, not the recorded results. A test of
Frond passes if it prints the same lines. Every other one has its class and a reason in known.txt.
The run fails if a result is worse than that, or if a server crashes.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import differences
import stress
import tree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
HOME = pathlib.Path(os.environ.get("CONFORMANCE_HOME", ROOT / "target/mariadb/conformance"))
PLUGIN = ROOT / "target/mariadb/build/ha_frond.so"
SUITES = ["storage_engine", "storage_engine/trx", "storage_engine/parts", "engines/funcs", "engines/iuds", "parts", "sql_sequence", "period", "vcol", "gcol",
          "versioning", "json", "handler", "main"]
ENGINES = ["innodb", "frond"]
OPTIONS = {
    "innodb": ["--mysqld=--default-storage-engine=innodb", "--mysqld=--innodb-lock-wait-timeout=3"],
    "frond": ["--mysqld=--plugin-load-add=ha_frond.so", "--mysqld=--default-storage-engine=frond",
              "--mysqld=--loose-frond-cache-size=64M", "--mysqld=--loose-frond-lock-wait-timeout=3", "--mysqld=--loose-frond-durability=os"],
}
COMMON = ["--mysqld=--innodb", "--mysqld=--partition", "--mysqld=--plugin-maturity=experimental"]
# Tests of replication run once with each format of the binlog, all others with the first. The name
# of a test has any other format after a comma.
FORMATS = ["row", "mixed", "statement"]
TEST_MINUTES = 2
NOT_RUN = "it did not run"
STATUS = re.compile(r"^(\S+\.\S+)(?: '([^']*)')?(?:\s+w\d+)?\s+\[ (?:retry-)?(pass|fail|skipped|disabled) \]\s*(.*)$")
# Tests of other engines, and of programs and files that belong to no engine.
NOT_OURS = re.compile(
    r"myisam|memory|archive|_heap|merge|federated|_maria|aria|_csv|mysqldump|mysql_upgrade|mysqlcheck|mysql_install|mysqld--help|ssl|"
    r"openssl|plugin|bootstrap|_host|connect|shutdown|client|mysqlbinlog|mysqltest|mysqlslap|perror|log_|_log|secure|password|gis-rt|"
    r"default_mysqld|crash_commit|stat_tables|max_password|win\b|ipv[46]|fulltext|^ft")
# Tests that wait until a statement waits for a whole table, which does not happen with row locks.
LOCKS_TABLES = re.compile(r"_(low|high)_prio$")
CREATES = re.compile(rb"create\s+(or\s+replace\s+)?table|\$ENGINE|source.*(inc|test)", re.IGNORECASE)


def names(tests, suite):
    folder = tests / suite if suite == "main" else tests / "suite" / suite
    if (folder / "t").is_dir():
        folder = folder / "t"
    found = []
    for path in sorted(folder.glob("*.test")):
        if suite.startswith("storage_engine") and LOCKS_TABLES.search(path.stem):
            continue
        if not suite.startswith(("storage_engine", "engines")) and (NOT_OURS.search(path.stem) or not CREATES.search(path.read_bytes())):
            continue
        found.append(f"{suite}.{path.stem}")
        if suite == "engines/funcs" and goes_by_format(tests, path, set()):
            found += [f"{suite}.{path.stem},{binlog}" for binlog in FORMATS[1:]]
    return found


def goes_by_format(tests, path, seen):
    """Whether a test, or a file that it includes, mentions replication or the binlog's format."""
    if path in seen or not path.exists():
        return False
    seen.add(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    if re.search(r"binlog_format|master-slave|rpl_init", text):
        return True
    included = re.findall(r"^\s*(?:--\s*)?source\s+([^\s;]+)", text, re.MULTILINE)
    return any(goes_by_format(tests, folder / name, seen) for name in included for folder in (tests, path.parent))


def split(name):
    """The name of a test without its binlog format, and the format."""
    test, _, binlog = name.partition(",")
    return test, binlog or FORMATS[0]


def result_file(tests, name):
    suite, test = split(name)[0].rsplit(".", 1)
    folder = tests / suite if suite == "main" else tests / "suite" / suite
    if (folder / "t").is_dir():
        folder = folder / "r"
    return folder / f"{test}.result"


def read_log(path):
    """What mysql-test-run reports for each test: (status, message)."""
    statuses, current = {}, None
    for line in path.open(encoding="utf-8", errors="replace"):
        match = STATUS.match(line)
        if match:
            current, _, status, said = match.groups()
            # For a test with several variants, the worst one counts.
            if statuses.get(current, [""])[0] != "fail":
                statuses[current] = [status, said + "\n"]
        elif current is not None and statuses[current][0] == "fail":
            statuses[current][1] += line
    return statuses


def run(engine, tests, wanted):
    """Runs tests. Returns for each its status (result, message) and its output."""
    statuses, texts = {}, {}
    for binlog in FORMATS:
        part = [name for name in wanted if split(name)[1] == binlog]
        if part:
            got = run_format(engine, tests, [split(name)[0] for name in part], binlog)
            for name in part:
                if split(name)[0] in got:
                    statuses[name] = got[split(name)[0]]
                texts[name] = output(engine, tests, name)
    return statuses, texts


def run_format(engine, tests, wanted, binlog):
    for name in wanted:
        result_file(tests, name).unlink(missing_ok=True)
        result_file(tests, name).parent.mkdir(exist_ok=True)
    var = HOME / engine / "var"
    shutil.rmtree(var, ignore_errors=True)
    command = ["perl", "mysql-test-run.pl", f"--vardir={var}", "--record", "--force", "--max-test-fail=0", "--retry=0", "--parallel=2",
               f"--testcase-timeout={TEST_MINUTES}", "--suite-timeout=240", "--nowarnings", "--nocheck-testcases",
               "--max-save-core=0", "--max-save-datadir=0", *COMMON, f"--mysqld=--binlog-format={binlog}", *OPTIONS[engine], *wanted]
    log = HOME / (f"{engine}.log" if binlog == FORMATS[0] else f"{engine}-{binlog}.log")
    with open(log, "w", encoding="utf-8") as out:
        subprocess.run(command, cwd=tests, stdout=out, stderr=subprocess.STDOUT, check=False)
    statuses = read_log(log)
    if not statuses and wanted:
        sys.exit(f"no test ran; the end of {log}:\n" + "".join(log.open(encoding="utf-8", errors="replace").readlines()[-20:]))
    return statuses


def output(engine, tests, name):
    """The output of a test, up to the point where it failed."""
    result = result_file(tests, name)
    if result.exists():
        return result.read_text(encoding="utf-8", errors="surrogateescape")
    name = split(name)[0]
    test = name.rsplit(".", 1)[1]
    for log in (HOME / engine / "var/log").glob(f"{name}*/{test}.log"):
        return log.read_text(encoding="utf-8", errors="surrogateescape")
    return ""


def judge(name, reference, status, was, now):
    """The (class, differences) of a test."""
    if reference[0] in ("skipped", "disabled") or status[0] == "disabled" or status[1] == NOT_RUN:
        return "skipped", []
    what = status[0]
    said = status[1]
    if what == "fail" and re.search(r"Server \[.*failed during test run|got signal|Attempting backtrace|Lost connection", said):
        if not re.search(r"failed during test run|got signal|Lost connection", reference[1]):
            return "crash", [("crash", "", [], said.splitlines()[:60])]
    if what == "fail" and "timeout after" in said:
        return ("skipped" if "timeout after" in reference[1] else "hang"), [("hang", "", [], said.splitlines()[:30])]
    if what in ("skipped", "disabled"):
        return "error", [("error", "", [], [said])]
    found = differences.between(was, now)
    if reference[0] == "fail":
        # The reference does not finish: what it prints until it fails is compared.
        found = [difference for difference in found if difference[2]]
        return differences.worst(["skipped", *(difference[0] for difference in found)]), found
    if what == "fail":
        found = [difference for difference in found if difference[3]]
        lines = said.splitlines()
        first = next((at for at, line in enumerate(lines) if line.startswith("mysqltest:")), 0)
        words = lines[first:first + 6]
        return differences.worst(["error"] + [difference[0] for difference in found]), [("error", "", [], words)] + found
    return differences.worst(difference[0] for difference in found), found


def read_known(path):
    known = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, kind, reason = line.split(None, 2)
                known[name] = (kind, reason)
    return known


def write_known(path, known):
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")] if path.exists() else []
    lines = [f"{name} {kind} {reason}" for name, (kind, reason) in sorted(known.items())]
    path.write_text("\n".join(head + lines) + "\n", encoding="utf-8")


AUTOMATIC = {"plan": "EXPLAIN, costs and estimates", "order": "No ORDER BY", "words": "SHOW and INFORMATION_SCHEMA of another engine"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wanted", nargs="*")
    for option in ("selection", "update", "fresh", "show", "judge"):
        parser.add_argument(f"--{option}", action="store_true")
    arguments = parser.parse_args()
    if not tree.INSTALLED.is_dir():
        sys.exit("mariadb-test is not installed: scripts/mariadb-setup.sh tests")
    HOME.mkdir(parents=True, exist_ok=True)
    trees = {engine: HOME / engine / "mysql-test" if arguments.judge else tree.make(HOME, engine, PLUGIN) for engine in ENGINES}
    wanted = list(arguments.wanted)
    if arguments.selection:
        wanted += (HERE / "selection.txt").read_text().split()
    tests, stressed = [], not wanted and not arguments.judge
    for word in wanted or SUITES:
        if word == "engines/rr_trx":
            stressed = True
        else:
            tests += names(trees["innodb"], word) if word in SUITES else [word]

    kept = HOME / "reference"
    if arguments.fresh:
        shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(exist_ok=True)
    index = kept / "statuses.json"
    reference = json.loads(index.read_text()) if index.exists() else {}
    missing = [name for name in tests if name not in reference]
    if missing and not arguments.judge:
        print(f"{len(missing)} tests on InnoDB", flush=True)
        statuses, texts = run("innodb", trees["innodb"], missing)
        for name in missing:
            reference[name] = statuses.get(name, ["skipped", ""])
            (kept / name.replace("/", "+")).write_text(texts[name], encoding="utf-8", errors="surrogateescape")
        index.write_text(json.dumps(reference))
    runnable = [name for name in tests if reference[name][0] not in ("skipped", "disabled")]
    results = HOME / "results"
    results.mkdir(exist_ok=True)
    index = results / "statuses.json"
    statuses = json.loads(index.read_text()) if index.exists() else {}
    if arguments.judge:
        tests = [name for name in tests if name in statuses or name in reference and name not in runnable]
    elif runnable:
        print(f"{len(runnable)} tests on Frond", flush=True)
        got, texts = run("frond", trees["frond"], runnable)
        for name in runnable:
            statuses[name] = got.get(name, ["skipped", NOT_RUN])
            (results / name.replace("/", "+")).write_text(texts[name], encoding="utf-8", errors="surrogateescape")
        index.write_text(json.dumps(statuses))

    known = read_known(HERE / "known.txt")
    table = collections.defaultdict(collections.Counter)
    worse, shown = [], HOME / "differences"
    shutil.rmtree(shown, ignore_errors=True)
    shown.mkdir()
    # A test for another format of the binlog is counted under the format with which it runs.
    ran = {split(name)[0] for name in tests if reference[name][0] not in ("skipped", "disabled")}
    tests = [name for name in tests if reference[name][0] not in ("skipped", "disabled") or "," not in name and name not in ran]
    for name in tests:
        was = (kept / name.replace("/", "+")).read_text(encoding="utf-8", errors="surrogateescape")
        result = results / name.replace("/", "+")
        now = result.read_text(encoding="utf-8", errors="surrogateescape") if result.exists() else ""
        status = statuses.get(name, ["skipped", NOT_RUN])
        kind, found = judge(name, reference[name], status, was, now)
        listed, reason = known.get(name, ("passed", ""))
        bad = differences.CLASSES.index(kind) > differences.CLASSES.index(listed) and kind != "skipped" or kind == "crash"
        if found:
            text = [name]
            for what, statement, before, after in found:
                text += [f"{what}: {statement}", *(f"- {line}" for line in before), *(f"+ {line}" for line in after)]
            (shown / name.replace("/", "+")).write_text("\n".join(text) + "\n", encoding="utf-8", errors="surrogateescape")
            if arguments.show and bad:
                print("\n".join(text).encode("utf-8", "backslashreplace").decode())
        table[split(name)[0].rsplit(".", 1)[0]][kind if kind in ("passed", "skipped") or bad else f"known {kind}"] += 1
        if arguments.update:
            if kind in ("passed", "skipped"):
                known.pop(name, None)
            else:
                known[name] = (kind, reason or AUTOMATIC.get(kind, "?"))
        elif bad:
            worse.append((name, kind, listed))
    if stressed:
        failures = stress.run(HOME, trees["frond"] / "suite/engines/rr_trx/t", PLUGIN)
        table["engines/rr_trx"]["passed"] += stress.TESTS - len(failures)
        table["engines/rr_trx"]["error"] += len(failures)
        worse += [(f"engines/rr_trx.{name}", "error", "passed") for name in failures]
    if arguments.update:
        write_known(HERE / "known.txt", known)
    columns = [kind for kind in [*differences.CLASSES, *(f"known {kind}" for kind in differences.CLASSES)]
               if any(row[kind] for row in table.values())]
    print("  ".join([f"{'suite':22}", *(f"{column:>11}" for column in columns), "        all"]))
    for suite, row in table.items():
        print("  ".join([f"{suite:22}", *(f"{row[column]:11}" for column in columns), f"{sum(row.values()):11}"]))
    for name, kind, listed in worse:
        print(f"worse than known: {name}: {kind}, was {listed}")
    sys.exit(1 if worse else 0)


main()
