"""Executes every line of the Dockerfile in a clean root, and runs the result: for where no Docker engine is.

    python3 scripts/image_in_root.py [--mirror URL] [--base DIR]       # as root, on Debian with debootstrap

Each stage begins with a new Debian made by debootstrap (minbase, python3 with venv and pip). It stands in for
the official Python image: the same system, with Debian's Python 3.11 in the place of 3.12. RUN is executed by
chroot as the stage's user with its environment, COPY copies what .dockerignore lets through. Then the
ENTRYPOINT is started with CMD on a read-only root as the image's user, the health check is executed, and
SIGTERM is sent. Packages come from where apt and pip of this machine take them.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = "python3,python3-venv,python3-pip,ca-certificates"
CONFIG: Final = """
[upstreams.demo]
base_url = "demo:"
[models]
one = { upstream = "demo", id = "one" }
[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"
[server]
keys = ["${POINTSMAN_KEY}"]
"""
#: Compilers and the like: none may be in what is run.
TOOLS: Final = ("gcc", "cc", "g++", "make", "git", "curl", "wget")
NOTED: Final = {"EXPOSE", "STOPSIGNAL", "VOLUME"}


@dataclass
class Stage:
    """One stage of the build."""

    root: Path
    name: str = ""
    user: str = "0:0"
    workdir: str = "/"
    env: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    )
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with their arguments."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def let_through(source: str) -> bool:
    """Whether .dockerignore lets a file or folder into the build."""
    rules = [line for line in (HERE / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert rules[0] == "*", "everything is left out but what is named"
    return any(source == rule[1:] or source.startswith(f"{rule[1:]}/") for rule in rules if rule[0] == "!")


def in_root(stage: Stage, command: list[str], more: dict[str, str], *, read_only: bool = False) -> list[str]:
    """The command that executes another one inside a stage, in namespaces of its own."""
    root = stage.root
    mounts = [f"mount -t proc proc {root}/proc", f"mount --bind /dev {root}/dev"]
    if read_only:
        tmpfs = "mount -t tmpfs -o mode=1777 none"
        volumes = f"{tmpfs} {root}/tmp && {tmpfs} {root}/var/lib/pointsman"
        mounts = [f"mount --bind {root} {root}", *mounts, f"mount -o remount,bind,ro {root}", volumes]
    quoted = " ".join(f"'{name}={value}'" for name, value in {**stage.env, **more}.items())
    inside = f'cd {stage.workdir} && exec "$@"'
    chroot = f"exec chroot --userspec={stage.user} {root} env -i {quoted} sh -c '{inside}' sh \"$@\""
    return ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, chroot]), "sh", *command]


def machine() -> dict[str, str]:
    """What pip is told on this machine."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}


def new_root(base: Path, place: Path) -> Path:
    subprocess.run(["cp", "-a", str(base), str(place)], check=True)
    return place


def make_base(place: Path, mirror: str) -> Path:
    """Make the Debian that stages begin with."""
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(place), mirror]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for marker in place.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()  # the official image has none
    (place / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for name in ("etc/pip.conf", "etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        if (found := Path("/") / name).exists():
            shutil.copy(found.resolve(), place / name)
    if (own := Path.home() / ".config/pip/pip.conf").exists():
        shutil.copy(own, place / "etc/pip.conf")
    return place


class Build:
    """A build, stage after stage."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.stages: list[Stage] = []

    def execute(self, word: str, rest: str) -> None:
        """Execute one instruction."""
        print(f"{word} {rest}", flush=True)
        if word not in NOTED:
            getattr(self, f"on_{word.lower()}")(rest)

    def on_from(self, rest: str) -> None:
        """Begin a stage."""
        image, _, name = rest.partition(" AS ")
        assert image.startswith("python:3."), "stood in for by Debian with Python"
        place = new_root(self.base, self.folder / f"stage{len(self.stages)}")
        self.stages.append(Stage(place, name))

    def on_workdir(self, rest: str) -> None:
        """Make and enter a folder."""
        (self.stages[-1].root / rest[1:]).mkdir(parents=True, exist_ok=True)
        self.stages[-1].workdir = rest

    def on_env(self, rest: str) -> None:
        """Set variables."""
        env = self.stages[-1].env
        for pair in rest.split():
            name, _, value = pair.partition("=")
            env[name] = value.replace("$PATH", env["PATH"])

    def on_user(self, rest: str) -> None:
        """Change the user."""
        self.stages[-1].user = rest

    def on_copy(self, rest: str) -> None:
        """Copy from the project, as far as it reaches the builder, or from another stage."""
        stage, words = self.stages[-1], rest.split()
        origin = HERE
        if words[0].startswith("--from="):
            name = words.pop(0).removeprefix("--from=")
            origin = next(each.root for each in self.stages if each.name == name)
        *sources, target = words
        place = Path(os.path.normpath(stage.root / stage.workdir[1:] / target.lstrip("/")))
        place = stage.root / target[1:] if target.startswith("/") else place
        for source in sources:
            assert origin != HERE or let_through(source), f".dockerignore leaves out {source}"
            copy(origin / source.lstrip("/"), place / Path(source).name if target.endswith("/") else place)

    def on_run(self, rest: str) -> None:
        """Execute a command inside the stage."""
        subprocess.run(in_root(self.stages[-1], ["sh", "-c", rest], machine()), check=True)

    def on_healthcheck(self, rest: str) -> None:
        """Note how the image is asked."""
        self.stages[-1].health = json.loads(rest.partition(" CMD ")[2])

    def on_entrypoint(self, rest: str) -> None:
        """Note what is started."""
        self.stages[-1].command = json.loads(rest)

    def on_cmd(self, rest: str) -> None:
        """Note its arguments."""
        self.stages[-1].command += json.loads(rest)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        skipped = shutil.ignore_patterns("__pycache__", "*.pyc") if source.is_relative_to(HERE) else None
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=skipped)
    else:
        shutil.copy2(source, target)


def run(stage: Stage) -> None:
    """Start the image as it would be started, look at it, and end it."""
    (stage.root / "etc/pointsman/pointsman.toml").write_text(CONFIG)
    environment = {"POINTSMAN_KEY": "a key of this run alone"}
    command = in_root(stage, stage.command, environment, read_only=True)
    with subprocess.Popen(command) as serving:
        try:
            began = time.monotonic()
            while subprocess.run(
                in_root(stage, stage.health, {}), stderr=subprocess.DEVNULL, check=False
            ).returncode:
                assert serving.poll() is None, "it has ended"
                assert time.monotonic() - began < 120, "it does not become healthy"
                time.sleep(0.2)
            print(f"healthy after {time.monotonic() - began:.1f} s on a read-only root as {stage.user}")
        finally:
            serving.send_signal(signal.SIGTERM)
        code = serving.wait(60)
    assert code == 0, f"SIGTERM ended it with {code}"
    print("SIGTERM: exit code 0")


def mirror() -> str:
    """Return where apt of this machine takes Debian's packages from."""
    lists = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(each.read_text() for each in lists if each.is_file())
    found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(\S+/debian)/?(?:\s|$)", text, re.MULTILINE)
    assert found is not None, "apt has no sources: name one with --mirror"
    return found[1]


def tools_in(stage: Stage) -> list[str]:
    places = [stage.root / place[1:] for place in stage.env["PATH"].split(":")]
    found = [tool for tool in TOOLS if any((place / tool).exists() for place in places)]
    return found + [str(pip) for pip in (stage.root / "opt/pointsman/bin").glob("pip*")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mirror", default=mirror(), help="of Debian; default: the machine's own")
    parser.add_argument("--base", type=Path, help="a root that debootstrap has made, to save its minutes")
    options = parser.parse_args()
    assert os.geteuid() == 0, "debootstrap and chroot need root"
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        base = options.base or make_base(Path(folder) / "base", options.mirror)
        build = Build(base, Path(folder))
        for word, rest in lines_of((HERE / "Dockerfile").read_text()):
            build.execute(word, rest)
        final = build.stages[-1]
        assert not (found := tools_in(final)), f"in the image: {found}"
        run(final)
        size = subprocess.check_output(["du", "-sm", str(final.root / "opt/pointsman")], text=True).split()[0]
        print(f"/opt/pointsman: {size} MB; no {', '.join(TOOLS)} or pip beside it")


if __name__ == "__main__":
    main()
