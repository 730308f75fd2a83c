"""Stands between an agent and the gateway, and keeps the heads of what the gateway answers."""

from __future__ import annotations

import re
import socket
import threading

__all__ = ["Tap"]

_HEAD = re.compile(rb"HTTP/1\.1 (\d{3})[^\r\n]*\r\n(.*?)\r\n\r\n", re.DOTALL)
_REQUEST = re.compile(rb"(?:^|\r\n|\}|\n)((?:GET|POST|HEAD|PUT|DELETE) /\S*) HTTP/1\.1\r\n")
_CHANGED = re.compile(rb"(?i)^x-pointsman-translated:\s*(.*)$", re.MULTILINE)


class Tap:
    """A relay on a port of its own."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.asked: list[bytearray] = []  # bytes of each connection
        self._answered: list[bytearray] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            agent, _ = self._listening.accept()
            gateway = socket.create_connection(("127.0.0.1", self._target))
            self.asked.append(bytearray())
            self._answered.append(bytearray())
            for source, sink, kept in (
                (agent, gateway, self.asked[-1]),
                (gateway, agent, self._answered[-1]),
            ):
                threading.Thread(target=_pump, args=(source, sink, kept), daemon=True).start()

    def statuses(self) -> list[tuple[str, int]]:
        """What was asked, and the status of the answer, connection by connection."""
        found = []
        for asked, answered in zip(self.asked, self._answered, strict=True):
            requests = [line.decode() for line in _REQUEST.findall(bytes(asked))]
            answers = [int(status) for status, _ in _HEAD.findall(bytes(answered))]
            found += list(zip(requests, answers, strict=False))
        return found

    def changed(self) -> list[str]:
        """What the gateway said it has changed, each once."""
        names: dict[str, None] = {}
        for answered in self._answered:
            for _, head in _HEAD.findall(bytes(answered)):
                for value in _CHANGED.findall(head):
                    _, _, changed = value.decode().partition("changed=")
                    names |= dict.fromkeys(name.strip() for name in changed.split(",") if name.strip())
        return list(names)


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    try:
        while data := source.recv(65_536):
            kept += data
            sink.sendall(data)
    except OSError:
        pass  # one side went away; the other is told below
    finally:
        for end in (source, sink):
            end.close()
