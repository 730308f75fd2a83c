"""Types a message to an agent in a terminal of its own, and prints what the screen showed.

    python terminal.py MESSAGE LAST COMMAND...

Some requests are sent only by an agent that has a terminal, such as those for a title. Ends with the agent's
last words ``LAST``, or with status 1 after two minutes.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

_SILENCE = 2.0  # seconds without output: it waits for a message
_PATIENCE = 120.0
_STEERING = re.compile(r"\x1b\[[0-9;?>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b.")


def main() -> int:
    message, last, *command = sys.argv[1:]
    process, screen = pty.fork()
    if process == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    shown, ends = b"", time.monotonic() + _PATIENCE
    to_type = [message.encode(), b"\r"]
    while time.monotonic() < ends and last not in _readable(shown):
        if select.select([screen], [], [], _SILENCE)[0]:
            try:
                shown += os.read(screen, 65_536)
            except OSError:  # it has ended
                break
        elif shown and to_type:
            os.write(screen, to_type.pop(0))
    os.kill(process, 15)
    print(text := _readable(shown))
    return int(last not in text)


def _readable(shown: bytes) -> str:
    return _STEERING.sub(" ", shown.decode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
