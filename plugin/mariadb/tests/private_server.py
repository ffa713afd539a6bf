"""Private servers for tests, each with a name and a directory of its own."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]


def server(name, *words, restore_signals=True, **environment):
    """Runs scripts/mariadb-server.sh: start, stop, kill, reset."""
    subprocess.run([ROOT / "scripts/mariadb-server.sh", *words], check=True, stdout=subprocess.DEVNULL,
                   restore_signals=restore_signals,
                   env={**os.environ, "FROND_SERVER": name, **environment})
