"""The HTTP port: connections that say nothing, or a byte now and then."""

from __future__ import annotations

import contextlib
import http.client
import pathlib
import subprocess
import sys
import time
from typing import Final, Iterator

from abuse import Abuse, Row, figure, law, scenario
from hostile import address_of, median, milliseconds, time_calls

_BOUND_SECONDS: Final = 0.2
_HOSTILE: Final = pathlib.Path(__file__).resolve().parent.parent / "hostile_connections.py"


def get(address: str, path: str) -> None:
    """Asks for a page on a connection of its own."""
    with contextlib.closing(http.client.HTTPConnection(*address_of(address), timeout=20)) as one:
        one.request("GET", path)
        answer = one.getresponse()
        answer.read()
        assert answer.status == 200


@scenario
def idle_and_dripping_connections(abuse: Abuse) -> Iterator[Row]:
    """1,000 idle and 100 dripping connections leave the probes and the scraper their pages."""
    idle, dripping = (300, 30) if abuse.is_short else (1000, 100)
    own = ("127.0.0.1",)
    others = tuple(f"127.0.0.{number}" for number in range(2, 12))
    for whose, sources, stubborn in (
        ("of the prober's own address", own, False),
        ("of ten other addresses, opened again when they are closed", others, True),
    ):
        with abuse.server() as server:
            alone = median(time_calls(lambda: get(server.http_address, "/healthz"), 20))
            hostile = subprocess.Popen(
                [
                    *(sys.executable, str(_HOSTILE), server.http_address),
                    *("--idle", str(idle), "--dripping", str(dripping), "--sources", *sources),
                    *(["--stubborn"] if stubborn else []),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert hostile.stdout is not None and hostile.stdout.readline() == "ready\n"
            ends = time.monotonic() + abuse.seconds / 4
            taken: dict[str, list[float]] = {"/healthz": [], "/metrics": []}
            failed = 0
            while time.monotonic() < ends:
                for path, seconds in taken.items():
                    try:
                        seconds += time_calls(lambda: get(server.http_address, path), 1)
                    except (OSError, http.client.HTTPException, AssertionError):
                        failed += 1
            reopened = int(hostile.communicate()[0])
        beside = f"beside {idle} idle and {dripping} dripping connections {whose}"
        yield law(
            f"pages {beside}",
            f"{sum(map(len, taken.values()))} answered, {failed} not; "
            f"{reopened} opened again",
            "each is answered",
            all(taken.values()) and failed == 0,
        )
        for path, seconds in taken.items():
            yield figure(
                f"{path} {beside}",
                f"at most {milliseconds(max(seconds, default=0))}, "
                f"median {milliseconds(median(seconds or [0]))}, "
                f"/healthz without them {milliseconds(alone)}",
                f"at most {milliseconds(_BOUND_SECONDS)}",
                bool(seconds) and max(seconds) <= _BOUND_SECONDS,
            )
