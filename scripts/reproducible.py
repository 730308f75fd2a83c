"""Build the distributions again from a copy elsewhere, and compare them bit by bit.

    SOURCE_DATE_EPOCH=… .venv-dist/bin/python scripts/reproducible.py dist

The copy lies at another path, its files are of another time and readable by their owner alone, and the build
has another time zone, language and hash seed. What both share is the source, the locked ``hatchling`` and
``SOURCE_DATE_EPOCH``, the time of the commit. Exits with 1 and names the members that differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: 2001-01-01, in seconds since the epoch: before every commit.
_OTHER_TIME: Final = 978_307_200
_OTHER: Final = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"}


def _copied(to: Path) -> None:
    """Copy the tracked files, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        file = to / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, file, follow_symlinks=False)
        if file.is_symlink():
            continue
        os.utime(file, (_OTHER_TIME, _OTHER_TIME))
        file.chmod(0o700 if os.access(ROOT / name, os.X_OK) else 0o600)


def members(file: Path) -> dict[str, tuple[object, ...]]:
    """Return what an archive says of each member, and its content."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return {
                each.filename: (each.date_time, each.external_attr, wheel.read(each))
                for each in wheel.infolist()
            }
    with tarfile.open(file) as packed:
        return {each.name: (each.mtime, each.mode, each.uname, _content(packed, each)) for each in packed}


def _content(packed: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = packed.extractfile(member)
    return opened.read() if opened else b""


def differences(first: Path, second: Path) -> list[str]:
    """Return the members in which two archives differ; empty only for archives of equal bytes."""
    if first.read_bytes() == second.read_bytes():
        return []
    ours, theirs = members(first), members(second)
    found = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    return found or ["(order or compression of the members)"]


def main() -> int:
    """Compare every distribution in a folder."""
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as made:
        source, out = Path(made, "elsewhere", "of-another-name"), Path(made, "out")
        source.mkdir(parents=True)
        _copied(source)
        command = [sys.executable, "-m", "build", "-q", "--no-isolation", "--outdir", str(out), str(source)]
        subprocess.run(command, check=True, env=os.environ | _OTHER)
        failed = 0
        for again in sorted(out.glob("pointsman-*")):
            differ = differences(folder / again.name, again)
            print(
                f"{again.name}: {'differs in ' + ', '.join(differ[:5]) if differ else 'the same, bit by bit'}"
            )
            failed += bool(differ)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
