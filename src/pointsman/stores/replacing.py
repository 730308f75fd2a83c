"""Atomic replacement of a file: a concurrent reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import Final

#: For the owner alone: a configuration may hold keys.
PRIVATE: Final = 0o600
#: As the user's umask has it.
SHARED: Final = 0o666


@contextmanager
def replaced(file: Path, mode: int = PRIVATE) -> Iterator[Path]:
    """Yield a draft beside a file, which takes its place at the end; after an error it is removed.

    The name of a draft begins with that of the file, behind a dot, and ends in ``.new``.

    Args:
        file: What is replaced; it need not exist. One that does passes its permissions on.
        mode: The permissions of a new one, before the umask.
    """
    draft = file.parent / f".{file.name}.{os.getpid()}-{os.urandom(4).hex()}.new"
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield draft
        if file.exists():
            draft.chmod(S_IMODE(file.stat().st_mode))
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
