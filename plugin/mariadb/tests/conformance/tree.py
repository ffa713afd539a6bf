"""Makes copies of the server's own tests, one for each engine: unchanged for the reference, with its
own name instead of InnoDB's for the other."""

import os
import pathlib
import re
import shutil

INSTALLED = pathlib.Path("/usr/share/mysql/mysql-test")
COPIED_SUITES = ["storage_engine", "engines", "parts", "sql_sequence", "period", "vcol", "gcol", "versioning", "json", "handler"]
KEPT_OUT = (".result", ".rdiff", ".reject", ".combinations")
PARALLEL_RECORDS = ("    $opt_parallel= 1;\n", "")
ENGINE = re.compile(rb"((?:engine|type)\w*\s*==?\s*['\"]*)innodb\b", re.IGNORECASE)
CHANGED = (".test", ".inc", ".opt", ".cnf", ".sql")
DEFINITION = """let $ENGINE = {engine};
let $default_col_opts = /*!*/;
let $default_col_indexed_opts = /*!*/;
let $default_tbl_opts = /*!*/;
let $default_index = /*!INDEX*/;
let $default_int_type = INT(11);
let $default_char_type = CHAR(8);
"""


def link(path, target):
    if path.is_symlink() or path.exists():
        path.unlink()
    path.symlink_to(target)


def copy(source, to, engine):
    for folder, _, files in os.walk(source):
        into = to / os.path.relpath(folder, source)
        into.mkdir(parents=True, exist_ok=True)
        for name in files:
            # Whole suites run once, with the requested engine, and not with each engine that they
            # know.
            if name.endswith(KEPT_OUT) and "main" not in into.parts and "include" not in into.parts or name == "combinations":
                continue
            if name.endswith(KEPT_OUT[:3]):
                continue
            content = pathlib.Path(folder, name).read_bytes()
            if engine != "innodb" and name.endswith(CHANGED):
                content = ENGINE.sub(lambda match: match[1] + engine.upper().encode(), content)
            into.joinpath(name).write_bytes(content)
            shutil.copymode(pathlib.Path(folder, name), into / name)


def modernize(path, *changes):
    text = path.read_text(errors="surrogateescape")
    for old, new in changes:
        text = text.replace(old, new)
    path.write_text(text, errors="surrogateescape")


def make(home, engine, plugin):
    """Makes a directory that looks like the installation of a server, with tests that can be changed.
    Returns the directory of the tests."""
    tests = home / engine / "mysql-test"
    if tests.exists():
        shutil.rmtree(tests)
    tests.mkdir(parents=True)
    for name, target in (("bin", "/usr/bin"), ("sbin", "/usr/sbin"), ("share", "/usr/share")):
        link(home / engine / name, target)
    plugins = home / engine / "lib/mysql/plugin"
    plugins.mkdir(parents=True, exist_ok=True)
    for installed in pathlib.Path("/usr/lib/mysql/plugin").glob("*.so"):
        if "rocksdb" not in installed.name and "frond" not in installed.name:
            link(plugins / installed.name, installed)
    # A copy, since the plugin may be rebuilt while tests run.
    (plugins / plugin.name).unlink(missing_ok=True)
    shutil.copy(plugin, plugins / plugin.name)
    for name in ("include", "main", "lib", "std_data", "collections"):
        copy(INSTALLED / name, tests / name, engine)
    for path in INSTALLED.iterdir():
        if path.is_file():
            shutil.copy(path, tests / path.name)
    runner = tests / "mysql-test-run.pl"
    runner.write_text(runner.read_text().replace(*PARALLEL_RECORDS))
    (tests / "suite").mkdir()
    (tests / "plugin").mkdir()
    for plugin in (INSTALLED / "plugin").iterdir():
        # Variants of the suites for other engines are left out.
        if plugin.name not in ("innobase", "rocksdb"):
            (tests / "plugin" / plugin.name).symlink_to(plugin)
    for suite in (INSTALLED / "suite").iterdir():
        if suite.name in COPIED_SUITES:
            copy(suite, tests / "suite" / suite.name, engine)
        else:
            (tests / "suite" / suite.name).symlink_to(suite)
    # The suite is older than ROWS as a reserved word, and than the rule that a variable without a
    # value cannot be incremented.
    modernize(tests / "suite/engines/rr_trx/include/rr_init.test", ("rows INT", "wanted INT"), ("> rows", "> wanted"))
    modernize(tests / "suite/engines/rr_trx/include/record_query_all_columns.inc",
              ("--inc $query_count", "if (!$query_count)\n{\n  let $query_count= 0;\n}\n--inc $query_count"))
    for path in (tests / "suite/engines/rr_trx").rglob("*.*"):
        if path.suffix in (".test", ".inc"):
            modernize(path, ("suite/stress_tx_rr/", "suite/engines/rr_trx/"), (" = 1, 1, 0) WHERE", " = 1, 1, 0) FROM t1 WHERE"))
    # Tests that were disabled because the recorded results do not fit: here the results are
    # compared with those of another engine.
    for folder in ("storage_engine", "engines"):
        for disabled in (tests / "suite" / folder).rglob("disabled.def"):
            disabled.unlink()
    # Dirty reads are not a goal: the reference is what InnoDB returns at the next level.
    if engine == "innodb":
        modernize(tests / "suite/storage_engine/trx/level_read_uncommitted.test", ("READ UNCOMMITTED", "READ COMMITTED"))
    name = "InnoDB" if engine == "innodb" else engine.upper()
    (tests / "suite/storage_engine/define_engine.inc").write_text(DEFINITION.format(engine=name))
    return tests
