"""Builds the Dockerfile without a Docker engine and a registry, and runs the result on a read-only root.

    apt-get install buildah debootstrap
    python3 scripts/image_in_root.py [--mirror URL] [--base DIR]       # as root, on Debian

Buildah builds. A new Debian made by debootstrap (minbase, python3 with venv and pip) stands in for the
official Python image: the same system, with Debian's Python 3.11 in the place of 3.12. Then the ENTRYPOINT is
started with CMD on a read-only root as the image's user, the health check is executed, and SIGTERM is sent.
Packages come from where apt and the configuration file of pip on this machine take them.
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
from pathlib import Path
from typing import Any, Final, NamedTuple

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


class Image(NamedTuple):
    """What was built."""

    root: Path
    config: dict[str, Any]  # as Docker has it


def in_root(image: Image, command: list[str], *variables: str, read_only: bool = False) -> list[str]:
    """The command that executes another one in an image, in namespaces of its own."""
    root, config = image.root, image.config
    mounts = [f"mount -t proc proc {root}/proc", f"mount --bind /dev {root}/dev"]
    if read_only:
        tmpfs = "mount -t tmpfs -o mode=1777 none"
        volumes = f"{tmpfs} {root}/tmp && {tmpfs} {root}/var/lib/pointsman"
        mounts = [f"mount --bind {root} {root}", *mounts, f"mount -o remount,bind,ro {root}", volumes]
    quoted = " ".join(f"'{variable}'" for variable in (*config["Env"], *variables))
    inside = f'cd {config["WorkingDir"]} && exec "$@"'
    chroot = f"exec chroot --userspec={config['User']} {root} env -i {quoted} sh -c '{inside}' sh \"$@\""
    return ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, chroot]), "sh", *command]


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


def built(base: Path, folder: Path) -> Image:
    """Build the Dockerfile on a base, with a store of images in a folder."""

    def buildah(*arguments: object) -> str:
        store = [
            "--root",
            folder / "images",
            "--runroot",
            folder / "run",
            "--storage-driver=vfs",
        ]  # mounts nothing
        command = ["buildah", *store, *arguments]
        return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout

    [python] = set(re.findall(r"^FROM (python:3\.\S+)", (HERE / "Dockerfile").read_text(), re.MULTILINE))
    container = buildah("from", "scratch").strip()
    buildah("add", "-q", container, base, "/")
    buildah("commit", "-q", "--rm", container, f"docker.io/library/{python}")
    buildah("build", "--isolation=chroot", "--pull-never", "--format=docker", "-q", "-t", "pointsman", HERE)
    root = buildah("mount", buildah("from", "--pull-never", "pointsman").strip()).strip()
    return Image(Path(root), json.loads(buildah("inspect", "--type=image", "pointsman"))["Docker"]["config"])


def run(image: Image) -> None:
    """Start the image as it would be started, look at it, and end it."""
    (image.root / "etc/pointsman/pointsman.toml").write_text(CONFIG)
    config = image.config
    command = [*config["Entrypoint"], *config["Cmd"]]
    health = in_root(image, config["Healthcheck"]["Test"][1:])  # without CMD
    key = "POINTSMAN_KEY=a key of this run alone"
    with subprocess.Popen(in_root(image, command, key, read_only=True)) as serving:
        try:
            began = time.monotonic()
            while subprocess.run(health, stderr=subprocess.DEVNULL, check=False).returncode:
                assert serving.poll() is None, "it has ended"
                assert time.monotonic() - began < 120, "it does not become healthy"
                time.sleep(0.2)
            print(f"healthy after {time.monotonic() - began:.1f} s on a read-only root as {config['User']}")
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


def tools_in(root: Path) -> list[str]:
    places = [root / place for place in ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin")]
    found = [tool for tool in TOOLS if any((place / tool).exists() for place in places)]
    return found + [str(pip) for pip in (root / "opt/pointsman/bin").glob("pip*")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mirror", default=mirror(), help="of Debian; default: the machine's own")
    parser.add_argument("--base", type=Path, help="a root that debootstrap has made, to save its minutes")
    options = parser.parse_args()
    assert os.geteuid() == 0, "debootstrap and chroot need root"
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        image = built(options.base or make_base(Path(folder) / "base", options.mirror), Path(folder))
        assert not (found := tools_in(image.root)), f"in the image: {found}"
        run(image)
        size = subprocess.check_output(["du", "-sm", str(image.root / "opt/pointsman")], text=True).split()[0]
        print(f"/opt/pointsman: {size} MB; no {', '.join(TOOLS)} or pip beside it")


if __name__ == "__main__":
    main()
