"""Runs the suite engines/rr_trx: concurrent transactions of several clients on one table; each checks
that the table is consistent."""

import os
import pathlib
import random
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[4]
CLIENTS = 4
SECONDS = int(os.environ.get("STRESS_SECONDS", "30"))
TESTS = 16
SKIPPED = 62


def server(*words):
    subprocess.run([ROOT / "scripts/mariadb-server.sh", *words], check=True, env={**os.environ, "FROND_SERVER": "stress"})


def run(home, tests, plugin):
    """Returns the names of the tests that failed, and prints their messages."""
    server("reset")
    server("start", "--default-storage-engine=frond", "--default-tmp-storage-engine=innodb", "--frond-durability=lazy",
           "--transaction-isolation=REPEATABLE-READ", "--sql-mode=NO_UNSIGNED_SUBTRACTION", "--frond-lock-wait-timeout=5")
    socket = ROOT / "target/mariadb/servers/stress/s.sock"
    subprocess.run(["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-e", "CREATE DATABASE IF NOT EXISTS test"], check=True)
    failures, lock = {}, threading.Lock()

    def test(name):
        done = subprocess.run(
            ["mariadb-test", "--no-defaults", f"--socket={socket}", "-uroot", "--database=test", "--silent",
             f"--basedir={tests.parents[3]}", f"--test-file={tests / name}.test"],
            cwd=tests.parents[3], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        # A test that hits a deadlock or a timeout skips the rest.
        if done.returncode not in (0, SKIPPED):
            with lock:
                if name not in failures:
                    print(f"engines/rr_trx.{name}: {done.stderr.strip()[-600:]}")
                failures[name] = True

    def client(seed):
        order = random.Random(seed)
        while time.monotonic() < end:
            name = order.choice(names)
            test(name)

    try:
        test("init_innodb")
        names = sorted(path.stem for path in tests.glob("rr_*.test"))
        end = time.monotonic() + SECONDS
        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        for name in names:
            test(name)
    finally:
        server("stop")
    return sorted(failures)
