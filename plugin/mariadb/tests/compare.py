#!/usr/bin/env python3
"""Runs scripts on two engines of one server, and fails if the results differ.

sql/*.sql, and what sql/*.py prints, runs in one session. sessions/*.txt runs in several: "A:
statement" waits for the answer, "A> statement" only sends it, "A<" collects the answer to what was
sent, "A!" disconnects. Other lines are comments.
"""

import difflib
import os
import pathlib
import re
import subprocess
import sys
import threading
import queue

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = ["innodb", "frond"]
ANSWER_SECONDS = 60


class Session:
    """A client whose answers are ended by a marker line."""

    def __init__(self, socket, database, engine, user="root"):
        self.client = subprocess.Popen(
            ["mariadb", "--no-defaults", f"--socket={socket}", f"-u{user}", "--force", "--unbuffered",
             "--default-character-set=utf8mb4", database],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
            encoding="utf-8", errors="backslashreplace")
        self.lines = queue.Queue()
        threading.Thread(target=self.pump, daemon=True).start()
        self.ask(f"SET default_storage_engine={engine}; SET innodb_lock_wait_timeout=1; SET frond_lock_wait_timeout=1;")

    def pump(self):
        for line in self.client.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def send(self, statement):
        self.client.stdin.write(statement.rstrip(";") + ";\nselect 'end of answer';\n")
        self.client.stdin.flush()

    def answer(self):
        lines = []
        while True:
            line = self.lines.get(timeout=ANSWER_SECONDS)
            if line is None:
                return lines + ["the connection is gone"]
            if line == "end of answer":
                self.lines.get(timeout=ANSWER_SECONDS)  # The header came first, the row follows.
                return lines
            lines.append(line)

    def ask(self, statement):
        self.send(statement)
        return self.answer()

    def close(self):
        self.client.stdin.close()
        self.client.wait(timeout=ANSWER_SECONDS)


def run_sql(socket, database, engine, path):
    if path.suffix == ".py":
        made = subprocess.run([sys.executable, path, socket], stdout=subprocess.PIPE, check=True).stdout.decode()
    else:
        made = path.read_text(encoding="utf-8")
    script = f"SET default_storage_engine={engine};\nSET frond_lock_wait_timeout=1;\n" + made
    done = subprocess.run(
        ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "--force", "-v", "--unbuffered",
         "--default-character-set=utf8mb4", database],
        input=script.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600, check=False)
    return done.stdout.decode("utf-8", errors="backslashreplace").splitlines()


def run_sessions(socket, database, engine, path):
    sessions, out = {}, []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"([A-Z])([:<>!]) ?(.*)", line)
        if not match:
            continue
        name, what, statement = match.groups()
        if name not in sessions:
            sessions[name] = Session(socket, database, engine)
        session = sessions[name]
        out.append(line)
        if what == ":":
            out += session.ask(statement)
        elif what == ">":
            session.send(statement)
        elif what == "!":
            sessions.pop(name).close()
        else:
            out += session.answer()
    for session in sessions.values():
        session.close()
    return out


def damaged(socket, database):
    """What CHECK TABLE reports about the tables that a script has left, except for "OK"."""
    client = ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-N", "--force"]
    tables = subprocess.run(
        [*client, "-e", "SELECT CONCAT('`', REPLACE(table_name, '`', '``'), '`') FROM information_schema.tables "
         f"WHERE table_schema='{database}' AND engine='FROND' AND table_type<>'SEQUENCE'"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    if not tables:
        return []
    done = subprocess.run([*client, database, "-e", "CHECK TABLE " + ", ".join(tables)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return [line for line in done.stdout.decode("utf-8", errors="backslashreplace").splitlines() if not line.endswith("\tstatus\tOK")]


def neutral(lines):
    """Removes what may differ: the name of the engine."""
    text = "\n".join(lines)
    text = re.sub(r"default_storage_engine=\w+", "default_storage_engine=ENGINE", text)
    text = re.sub(r"ENGINE=(InnoDB|FROND)", "ENGINE=ENGINE", text)
    return text.splitlines()


def main():
    socket = sys.argv[1]
    wanted = sys.argv[2:]
    failed = []
    scripts = sorted(HERE.glob("sql/*.sql")) + sorted(HERE.glob("sql/*.py")) + sorted(HERE.glob("sessions/*.txt"))
    unknown = set(wanted) - {path.stem for path in scripts}
    if unknown:
        sys.exit(f"no such scripts: {' '.join(sorted(unknown))}")
    for path in scripts:
        if wanted and path.stem not in wanted:
            continue
        results = []
        for engine in ENGINES:
            database = "compared"
            subprocess.run(
                ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-e",
                 f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database} CHARACTER SET utf8mb4"], check=True)
            run = run_sql if path.suffix in (".sql", ".py") else run_sessions
            results.append(neutral(run(socket, database, engine, path)))
        bad = damaged(socket, "compared")
        if bad:
            failed.append(path.name)
            print(f"{path.name}: CHECK TABLE")
            print("\n".join(bad[:60]))
        difference = list(difflib.unified_diff(results[0], results[1], *ENGINES, lineterm="", n=4))
        if difference:
            failed.append(path.name)
            print(f"{path.name}: DIFFERS")
            print("\n".join(difference[:int(os.environ.get("LINES_SHOWN", "60"))]))
        else:
            print(f"{path.name}: same, {len(results[0])} lines")
    if failed:
        print(f"{len(failed)} differ: {' '.join(failed)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
