"""What stands before a real S3 server, and answers with faults when it is told to."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import enum
import itertools
import re
import socket
import threading
from typing import Any, Final, Iterator

_ERRORS: Final = (b"500 Internal Server Error", b"503 Slow Down")
# A request begins a piece of its own: clients wait for the answer before the next.
_REQUEST: Final = re.compile(rb"([A-Z]+) \S+ HTTP/1\.1\r\n")
# Of an answer that breaks off.
_BROKEN_BYTES: Final = 1000


class S3Fault(enum.Enum):
    """What happens to requests."""

    NONE = "none"
    # Each is answered with 500 or 503.
    REFUSES = "refuses"
    # They are taken, and nothing is answered.
    HANGS = "hangs"
    # Answers break off after some bytes.
    BREAKS = "breaks"


class S3Front:
    """Passes bytes on, in a thread, for a `with` block. Signatures stay good: they have its address."""

    def __init__(self, server: str, host: str = "127.0.0.1") -> None:
        """`server` is HOST:PORT of the real one."""
        self._server = server
        self._fault = S3Fault.NONE
        self._errors = itertools.cycle(_ERRORS)
        self._listener = socket.create_server((host, 0))
        port: int = self._listener.getsockname()[1]
        self.address = f"{host}:{port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._connections: set[asyncio.Task[Any]] = set()
        # By method.
        self.requests: collections.Counter[str] = collections.Counter()

    def __enter__(self) -> S3Front:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._loop.run_forever()
        for connection in self._connections:
            connection.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def set(self, fault: S3Fault) -> None:
        """From now on; requests that are under way break off, or hang with the others."""

        def change() -> None:
            self._fault = fault
            if fault is not S3Fault.HANGS:
                for connection in self._connections:
                    connection.cancel()

        self._loop.call_soon_threadsafe(change)

    @contextlib.contextmanager
    def fault(self, fault: S3Fault) -> Iterator[None]:
        """For a `with` block."""
        self.set(fault)
        try:
            yield
        finally:
            self.set(S3Fault.NONE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._pass(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._fault is S3Fault.REFUSES:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                b"HTTP/1.1 " + next(self._errors) + b"\r\nContent-Length: 0\r\n"
                b"Connection: close\r\n\r\n"
            )
            await writer.drain()
            return
        host, _, port = self._server.rpartition(":")
        there, to_there = await asyncio.open_connection(host, int(port))
        pumps = [
            asyncio.ensure_future(self._pump(reader, to_there, answers=False)),
            asyncio.ensure_future(self._pump(there, writer, answers=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            to_there.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                if not answers and (head := _REQUEST.match(data)):
                    self.requests[f"{head[1].decode()} of S3"] += 1
                while self._fault is S3Fault.HANGS:
                    await asyncio.sleep(0.05)
                if answers and self._fault is S3Fault.BREAKS:
                    sink.write(data[: min(_BROKEN_BYTES, len(data) // 2)])
                    await sink.drain()
                    return
                sink.write(data)
                await sink.drain()
