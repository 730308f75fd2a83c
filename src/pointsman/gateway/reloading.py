"""Hot reload: reads the configuration again when its file changes and on SIGHUP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import threading
from collections.abc import Callable
from typing import Final

from pointsman.errors import PointsmanError
from pointsman.gateway._live_state import LiveState
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder

__all__ = ["Reloader"]

log = logging.getLogger(__name__)

#: Seconds between looks at the configuration file: soon enough for a person, nothing for a disk.
_LOOK_EVERY: Final = 1.0


class Reloader:
    """Reloads the configuration of a gateway when it changes."""

    def __init__(
        self,
        gateway: Gateway,
        builder: Builder,
        accept: Callable[[LiveState], LiveState],
    ) -> None:
        """Prepare to reload.

        Args:
            gateway: The one with the state to replace.
            builder: Of that state; called in a thread, on SIGHUP and when its file changes.
            accept: Returns the state to serve with from a loaded one; raises what refuses it.
        """
        self._gateway = gateway
        self._builder = builder
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
            watch = self._builder.watch
            has_changed = watch is not None and watch.has_changed()
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
        return self._builder(previous)
