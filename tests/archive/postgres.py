"""A PostgreSQL server of the tests' own, from the binaries of the package ``pgserver``; nothing is installed and no account is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

NOBODY = 65534
"""Servers refuse to run as root."""


def binaries() -> Path:
    """Where ``initdb`` and ``pg_ctl`` are; skips the test, with the reason, where they are not or cannot be run."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = find_spec("pgserver")
    if found is None or found.origin is None:
        pytest.skip("pgserver is not installed (it has no wheel for this Python or machine)")
    folder = Path(found.origin).parent / "pginstall" / "bin"
    try:
        subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, user=_account())
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"pgserver's binaries do not run here: {error}")
    return folder


def _account() -> int | None:
    return NOBODY if os.getuid() == 0 else None


class Server:
    """A server with an empty folder of data; it listens on a socket there and nowhere else."""

    def __init__(self) -> None:
        self.bin = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="feinsum_fuse-postgres-", dir="/tmp"))
        if _account() is not None:
            os.chown(self.folder, NOBODY, NOBODY)
        self.data = self.folder / "data"
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--username=postgres", "--no-sync", "--no-locale")
        self.schemas = 0
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.bin / program, "--pgdata", self.data, *arguments],
            check=True,
            user=_account(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )

    def start(self) -> None:
        """Start, and wait until connections are taken. Nothing is synced: what is killed here is the server, never the machine."""
        settings = f"-F -c autovacuum=off -c listen_addresses='' -c shared_buffers=16MB -c unix_socket_directories={self.folder}"
        self._run("pg_ctl", "--wait", "--log", str(self.folder / "log"), "--options", settings, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop; ``immediate`` is a crash as far as clients and data can tell."""
        self._run("pg_ctl", "--wait", "--mode", mode, "stop")

    def url(self, database: str = "postgres", schema: str = "public") -> str:
        """The address of a schema in a database of this server."""
        return f"postgresql://postgres@/{database}?host={self.folder}&options=-csearch_path%3D{schema}"

    def new_schema(self) -> str:
        """The address of an empty schema that nobody uses, which costs less than a database."""
        import psycopg

        self.schemas += 1
        name = f"facts{self.schemas}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.url(schema=name)

    def close(self) -> None:
        """Stop for good."""
        self.stop("immediate")
        shutil.rmtree(self.folder)
