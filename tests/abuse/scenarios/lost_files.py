"""The data directory is taken away from under a server that appends, checks and delivers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import tempfile
import threading
from typing import Callable, Final, Iterator

import grpc
import numpy as np
from abuse import Abuse, Row, law, scenario
from server_process import ServerProcess

from packhouse import Client, DType, GraphSchema, GraphTable, Loader, PackhouseError, TensorSpec

_SCHEMA: Final = GraphSchema(("nodes", "edges"), (TensorSpec("x", DType.FLOAT32, "nodes", (64,)),))
_LOST: Final = grpc.StatusCode.DATA_LOSS


def _graphs(first_id: int) -> GraphTable:
    """100 graphs of 10 nodes, 256 kB."""
    rows = np.full((1000, 64), first_id, np.float32)
    return GraphTable(_SCHEMA, [(10, 0)] * 100, {"x": rows}, first_id=first_id)


def _cut_off(file: pathlib.Path, share: float) -> None:
    os.truncate(file, int(share * file.stat().st_size))


@dataclasses.dataclass(frozen=True)
class _Loss:
    """What happens to the folder."""

    name: str
    happen: Callable[[pathlib.Path], None]


_LOSSES: Final = (
    _Loss("removed", shutil.rmtree),
    _Loss("cut off", lambda folder: _cut_off(folder / "datasets" / "data.mdb", 0.5)),
    _Loss("emptied", lambda folder: _cut_off(folder / "datasets" / "data.mdb", 0)),
    _Loss("ledger emptied", lambda folder: _cut_off(folder / "delivery" / "data.mdb", 0)),
)


def _ends_of(calls: dict[str, Callable[[], object]], lose: Callable[[], None]) -> dict[str, str]:
    """Repeats each call in a thread until it fails, during which `lose` happens; the codes."""
    ends = {}
    under_way = threading.Barrier(len(calls) + 1)

    def repeat(name: str, call: Callable[[], object]) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            call()
            under_way.wait()
        for _ in range(300):
            try:
                call()
            except PackhouseError as error:
                ends[name] = error.code.name
                return
        ends[name] = "OK"

    threads = [threading.Thread(target=repeat, args=pair) for pair in calls.items()]
    for thread in threads:
        thread.start()
    under_way.wait()
    lose()
    for thread in threads:
        thread.join()
    return ends


def _fates(server: ServerProcess, folder: pathlib.Path, loss: _Loss) -> dict[str, str]:
    """What each call came to, by name."""
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Client(server.address))
        for name in ("open", "sealed"):
            client.datasets.create(name, _SCHEMA)
            client.datasets.append(name, [_graphs(1000 * i) for i in range(20)])
        client.datasets.seal("sealed")
        loader = stack.enter_context(
            Loader(
                server.address,
                dataset="sealed",
                job="job",
                limits={"nodes": 20},
                retry_timeout=2.0,
            )
        )

        def verify() -> None:
            checked = client.datasets.verify("sealed")
            if not checked.is_sound:
                raise PackhouseError(_LOST, checked.disagreements[0])

        def load() -> None:
            if next(loader, None) is None:
                loader.set_epoch(loader.epoch + 1)

        calls: dict[str, Callable[[], object]] = {"load": load}
        if loss.name != "ledger emptied":
            calls["append"] = lambda: client.datasets.append("open", [_graphs(0)], retry_timeout=2.0)
            calls["verify"] = verify
        return _ends_of(calls, lambda: loss.happen(folder))


@scenario
def data_directory(abuse: Abuse) -> Iterator[Row]:
    """Appends, checks, batches and acknowledgements end with DATA_LOSS; the server goes on."""
    for loss in _LOSSES[: 2 if abuse.is_short else None]:
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent) / "data"
            with abuse.server("--data-dir", str(folder)) as server:
                fates = _fates(server, folder, loss)
                for name, code in sorted(fates.items()):
                    yield law(
                        f"{name}, data directory {loss.name}", code, _LOST.name, code == _LOST.name
                    )
                ended = server.process.poll()
                yield law(
                    f"exit status, data directory {loss.name}", str(ended), "none", ended is None
                )
                ready = server.get("/readyz")[0]
                yield law(f"/readyz, data directory {loss.name}", str(ready), "503", ready == 503)
