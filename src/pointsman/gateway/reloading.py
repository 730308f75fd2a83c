"""Hot reload: reads the configuration again when its file changes and on SIGHUP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pointsman.errors import PointsmanError
from pointsman.gateway._live_state import LiveState
from pointsman.gateway.app import Gateway

__all__ = ["Load", "Reloader", "WatchedFile"]

log = logging.getLogger(__name__)

#: Seconds between looks at the configuration file: soon enough for a person, nothing for a disk.
_LOOK_EVERY: Final = 1.0

#: Reads the configuration again, and builds what follows the state in effect, which it is given.
Load = Callable[[LiveState], LiveState]


class WatchedFile:
    """A file and the files it reads: whether any has changed since the last look; the first is now."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen = self._stamps()

    def has_changed(self) -> bool:
        """Look again."""
        before, self._seen = self._seen, self._stamps()
        return self._seen != before

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None  # being replaced just now, or gone: the old configuration stays
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class Reloader:
    """Reloads the configuration of a gateway when it changes."""

    def __init__(
        self,
        gateway: Gateway,
        load: Load,
        watch: WatchedFile | None,
        accept: Callable[[LiveState], LiveState],
    ) -> None:
        """Prepare to reload.

        Args:
            gateway: The one with the state to replace.
            load: Called in a thread, on SIGHUP and when ``watch`` changes.
            watch: The configuration file, watched since before it was read for ``gateway``.
            accept: Returns the state to serve with from a loaded one; raises what refuses it.
        """
        self._gateway = gateway
        self._load = load
        self._watch = watch
        self._accept = accept

    def start(self) -> asyncio.Task[None]:
        """Begin: SIGHUP reloads from now on, and a changed file until the task is cancelled."""
        hung_up = asyncio.Event()
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up.set)
        return asyncio.create_task(self._keep_current(hung_up))

    async def _keep_current(self, hung_up: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hung_up.wait(), _LOOK_EVERY)
            has_changed = self._watch is not None and self._watch.has_changed()
            if has_changed or hung_up.is_set():
                hung_up.clear()
                await self.reload()

    async def reload(self) -> bool:
        """Reload the configuration; an invalid one is reported and the old one stays in effect.

        It is read in a thread: to compile a policy takes half a second, in which callers are served.
        """
        metrics = self._gateway.metrics
        try:
            state = self._accept(await asyncio.to_thread(self._load_anew, self._gateway.state))
        except PointsmanError as error:
            log.error("the new configuration is refused, the old one stays in effect: %s", error)  # noqa: TRY400 - no traceback
            metrics.count("reloads", "failed")
            return False
        except Exception:
            # Fail open: whatever is wrong with a new configuration, the old one goes on; counted as "failed".
            log.exception("the configuration cannot be read, the old one stays")
            metrics.count("reloads", "failed")
            return False
        self._gateway.replace(state)
        metrics.count("reloads", "done")
        log.info("configuration reloaded")
        return True

    def _load_anew(self, previous: LiveState) -> LiveState:
        """Build the next state, and free what earlier reloads left: a megabyte each.

        Its parts refer to each other, and the thresholds set at the start would let it lie for long.
        """
        gc.collect()
        return self._load(previous)
