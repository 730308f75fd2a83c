"""Real engines for tests: Debian's PostgreSQL, and Valkey or Redis, each in a directory of its own.

PostgreSQL refuses to run as root: there it runs as its package's user, or as nobody. Nothing outlives the
test run: the kernel ends an engine whose starter is gone.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from support.waiting import until

__all__ = ["Postgres", "Valkey", "find_postgres", "find_valkey", "postgres", "valkey"]

#: User, and password of either engine.
USER: Final = "pointsman"
PASSWORD: Final = "canary"
_OPTIONS: Final = (
    "fsync=off", "full_page_writes=off", "shared_buffers=32MB",
    "max_connections=60", "listen_addresses=", "autovacuum=off",
)  # fmt: skip
_names: Final = count(1)


def find_postgres() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs; Debian keeps them out of PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(folders, key=lambda path: int(re.sub(r"\D", "", path.parts[4]) or 0))
    return newest[-1].parent if newest else None


def find_valkey() -> str | None:
    """Return the server's program: Valkey, else Redis."""
    return shutil.which("valkey-server") or shutil.which("redis-server")


@dataclass
class Postgres:
    """One server on a Unix socket. Each test takes a database of its own."""

    programs: Path
    directory: Path  # of the socket; the data is below it
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    #: Makes all databases: a connection costs as much as a database.
    _maker: psycopg.Connection[Any] | None = field(default=None, repr=False)

    def url(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        """The address of a database, with the password."""
        return f"postgresql://{USER}:{password}@/{database}?host={self.directory}"

    def database(self) -> str:
        """Make an empty database and return its address."""
        name = f"test_{next(_names)}"
        if self._maker is None:
            self._maker = psycopg.connect(self.url(), autocommit=True)
        # Copying files takes half of the CPU of logging their pages, which versions before 15 do not do.
        copied = "STRATEGY file_copy" if self._maker.info.server_version >= 150_000 else ""
        self._maker.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(copied)))
        return self.url(name)

    @contextmanager
    def refusing(self, url: str) -> Iterator[None]:
        """An outage of one database: its connections have ended, and new ones are refused."""
        database = str(conninfo_to_dict(url)["dbname"])
        name = sql.Identifier(database)
        self._execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = {}"
        self._execute(sql.SQL(ended).format(database))
        try:
            yield
        finally:
            self._execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [part for option in _OPTIONS for part in ("-c", option)]
        program = [
            str(self.programs / "postgres"),
            "-D",
            str(self.directory / "data"),
            "-k",
            str(self.directory),
        ]
        self._process = process = _unprivileged([*program, *settings], self.directory)

        def answers() -> bool:
            assert process.poll() is None, (self.directory / "log").read_text(errors="replace")
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                return False
            return True

        until(answers)

    def stop(self) -> None:
        """Stop the server as a crash would: what a client waits for fails."""
        if self._maker is not None:
            self._maker.close()
            self._maker = None
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: immediate shutdown
            self._process.wait(60)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let no process of the server do anything, with all connections open."""
        assert self._process is not None
        processes = _with_children(self._process.pid)
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


def _with_children(process: int) -> list[int]:
    """A process and those that it started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *map(int, children)]


@dataclass
class Valkey:
    """One server on a port of loopback, with a password."""

    port: int
    program: str = field(default="", repr=False)
    directory: Path = field(default=Path(), repr=False)
    password: str = PASSWORD
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The address, without the password."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> bool:
        """Start with nothing kept; False where the port is taken: then there is no socket."""
        own = self.directory / f"{self.port}.sock"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--requirepass", PASSWORD]
        command = [self.program, *options, "--unixsocket", str(own)]
        self._process = process = _unprivileged(command, self.directory)
        until(lambda: own.exists() or process.poll() is not None)
        return process.poll() is None

    def stop(self) -> None:
        """Stop the server; nothing is kept."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None
            (self.directory / f"{self.port}.sock").unlink(missing_ok=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it answer nobody, with its connections open."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start: as an upgrade does."""
        self.stop()
        assert self.start()


@contextmanager
def postgres(programs: Path) -> Iterator[Postgres]:
    """Run a PostgreSQL of this run's own."""
    with _directory("pg") as directory:
        (directory / "password").write_text(PASSWORD)
        _own(directory / "password")
        asked = [
            "--auth=password",  # in clear over a Unix socket: scram takes a client 5 ms each time
            f"--pwfile={directory / 'password'}",
            "--no-sync",
            "--no-instructions",
        ]
        program = [
            str(programs / "initdb"),
            "-D",
            str(directory / "data"),
            "-U",
            USER,
            "-E",
            "UTF8",
            "--locale=C",
        ]
        made = _unprivileged([*program, *asked], directory)
        assert made.wait(120) == 0, (directory / "log").read_text(errors="replace")
        server = Postgres(programs, directory)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def valkey(program: str) -> Iterator[Valkey]:
    """Run a Valkey, or Redis, of this run's own: another port where the free one was taken."""
    with _directory("valkey") as directory:
        asked = (Valkey(_free_port(), program, directory) for _ in range(10))
        server = next(each for each in asked if each.start())
        try:
            yield server
        finally:
            server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _directory(name: str) -> Iterator[Path]:
    """A directory of an unprivileged engine. Its path is short: that of a socket has 107 bytes at most."""
    directory = Path(tempfile.mkdtemp(prefix=f"pointsman-{name}-", dir="/tmp"))
    try:
        _own(directory)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _own(path: Path) -> None:
    if user := _user():
        os.chown(path, user.pw_uid, user.pw_gid)


def _user() -> pwd.struct_passwd | None:
    """Whom an engine runs as; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _unprivileged(command: Sequence[str], directory: Path) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process, and writes what it has to say into ``directory/log``."""
    user = _user()
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    clean = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ} | {"LC_ALL": "C"}
    with (directory / "log").open("ab") as log:
        process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]  # by who we are
            [*leash, *command],
            cwd=directory,
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            **identity,
        )
    return process
