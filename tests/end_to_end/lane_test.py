"""Lanes of a real server: clients that die at every point, and clients that lie.

The client here is a process of its own that speaks the protocol of docs/lane.md word by word.
"""

from __future__ import annotations

import array
import mmap
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import Client, GraphSchema, GraphTable, TensorSpec
from packhouse.v1 import loader_pb2, loader_pb2_grpc

NUM_GRAPHS = 240
# So large that few batches are made before the lane is open.
WIDTH = 4096
# In seconds: a server on a machine that has other work.
PATIENCE = 60.0
BY_GRPC = 2**32 - 1


def fill(address: str) -> None:
    """A data set of numbered graphs."""
    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes", (WIDTH,)),))
    graphs = [{"x": np.full((5, WIDTH), i, np.float32)} for i in range(NUM_GRAPHS)]
    with Client(address) as client:
        client.datasets.create("set", schema)
        client.datasets.append("set", GraphTable.from_graphs(schema, graphs))
        client.datasets.seal("set")


class LaneClient:
    """One Load stream of rank 0 of 1, by its lane. It dies when it has taken `steps` steps."""

    def __init__(
        self, address: str, steps: int, log: pathlib.Path, max_in_flight: int = 64
    ) -> None:
        self._steps = steps
        self._log = log
        self._stub = loader_pb2_grpc.LoaderServiceStub(grpc.insecure_channel(address))
        request = loader_pb2.LoadRequest(lane=True, max_in_flight=max_in_flight)
        request.epoch.dataset, request.epoch.job = "set", "job"
        request.epoch.rank_groups.add().shapes.add().capacities.add(component="graphs", rows=4)
        request.ranked.num_ranks = 1
        self._stream = self._stub.Load(request, wait_for_ready=True)
        self.opened = next(self._stream).opened
        self.step()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(self.opened.lane.socket_path)
        self.step()
        self.socket.send(b"PHL1" + self.opened.lane.token)
        self.step()
        answer, passed, _, _ = self.socket.recvmsg(24, socket.CMSG_LEN(4))
        magic, self.num_slots, self.slot_bytes, self._num_before = struct.unpack("<4sIQQ", answer)
        assert magic == b"PHL1"
        descriptor = array.array("i", passed[0][2])[0]
        self.memory = mmap.mmap(descriptor, self.num_slots * self.slot_bytes)
        os.close(descriptor)
        self.step()

    def step(self) -> None:
        """Dies here, if it is time."""
        self._steps -= 1
        if self._steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def batches(self) -> int:
        """Takes, checks, releases and acknowledges each; how many came by the lane."""
        num_by_lane = 0
        num_from_grpc = 1
        while True:
            slot = BY_GRPC
            if num_from_grpc >= self._num_before:
                slot, offset, size = struct.unpack("<IIQ", self.socket.recv(16))
            self.step()
            if slot == BY_GRPC:
                response = next(self._stream)
                num_from_grpc += 1
            else:
                begin = slot * self.slot_bytes + offset
                response = loader_pb2.LoadResponse.FromString(self.memory[begin : begin + size])
                num_by_lane += 1
            if response.HasField("end_of_epoch"):
                return num_by_lane
            batch = response.batch.batch
            ids = np.frombuffer(batch.graph_ids, "<u8")
            rows = np.frombuffer(batch.tensors[0].data, "<f4").reshape(-1, WIDTH)
            assert (rows == np.repeat(ids, 5)[:, np.newaxis]).all()
            if slot != BY_GRPC:
                # Whatever it writes there is nobody's matter.
                self.memory[begin : begin + size] = bytes(size)
                self.step()
                self.socket.send(struct.pack("<I", slot))
            self.step()
            done = self._stub.Acknowledge(
                loader_pb2.AcknowledgeRequest(
                    job="job",
                    epoch=0,
                    generation=self.opened.generation,
                    session=self.opened.session,
                    batches=[batch.id],
                )
            )
            with self._log.open("a", encoding="ascii") as log:
                print(done.num_new, file=log)
            self.step()

    def read_on(self) -> None:
        """Reads the stream to its end, and raises why it ended."""
        for _ in self._stream:
            pass


def load(address: str, steps: int, log: pathlib.Path) -> int:
    """The exit status of a client that dies after so many steps; 0: it has come to the end."""
    return subprocess.run(
        [sys.executable, "-B", __file__, address, str(steps), str(log)], check=False, timeout=120
    ).returncode


def left(server: ServerProcess) -> tuple[int, int, int]:
    """Descriptors, mappings of lanes, and open or offered lanes."""
    process = pathlib.Path(f"/proc/{server.process.pid}")
    streams = re.findall(r"^packhouse_lane_streams\{.*\} (\d+)", server.get("/metrics")[1], re.M)
    return (
        len(list((process / "fd").iterdir())),
        (process / "maps").read_text(encoding="utf-8").count("packhouse-lane"),
        sum(map(int, streams)),
    )


def await_left(server: ServerProcess, most_descriptors: int) -> None:
    """Waits until nothing is left of clients that have gone."""
    end = time.monotonic() + PATIENCE
    while True:
        descriptors, mappings, streams = left(server)
        if descriptors <= most_descriptors and (mappings, streams) == (0, 0):
            return
        assert time.monotonic() < end, (descriptors, most_descriptors, mappings, streams)
        time.sleep(0.05)


def test_a_client_that_dies_at_any_point_leaves_nothing_and_loses_nothing(
    tmp_path: pathlib.Path,
) -> None:
    log = tmp_path / "acknowledged"
    with ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--lane", f"unix:{tmp_path}/lane")
    ) as server:
        fill(server.address)
        await_left(server, 10**6)
        before = left(server)[0]
        for steps in (1, 2, 3, 4, 5, 7, 8, 14, 23, 60):
            assert load(server.address, steps, log) == -signal.SIGKILL
            await_left(server, before + 2)
        assert load(server.address, 0, log) == 0
        await_left(server, before + 2)
        with Client(server.address) as client:
            (job,) = client.jobs.list()
        (epoch,) = job.epochs
    assert epoch.num_done == epoch.num_batches
    assert sum(map(int, log.read_text(encoding="ascii").split())) == epoch.num_batches


def test_who_lies_harms_itself_alone(tmp_path: pathlib.Path) -> None:
    with ServerProcess(
        *("--data-dir", str(tmp_path / "data"), "--lane", f"unix:{tmp_path}/lane")
    ) as server:
        fill(server.address)
        lies = (b"", b"x", struct.pack("<I", 77), struct.pack("<I", 0) * 2, bytes(100_000))
        # Some streams wait for acknowledgements then, which never come.
        for lie, max_in_flight in (*((lie, 64) for lie in lies), (b"", 2), (b"x", 2)):
            liar = LaneClient(server.address, 0, tmp_path / "liar", max_in_flight)
            liar.socket.send(lie)
            # First what came by gRPC before the lane: the server may wait for its reader.
            with pytest.raises(grpc.RpcError) as ended:
                liar.read_on()
            while liar.socket.recv(16):
                pass
            code = "UNAVAILABLE" if lie == b"" else "INVALID_ARGUMENT"
            assert ended.value.code().name == code
            assert "lane" in ended.value.details()
        assert load(server.address, 0, tmp_path / "honest") == 0


def test_the_sockets_file_goes_with_the_server(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lane"
    with ServerProcess("--lane", f"unix:{path}") as server:
        assert path.is_socket()
        server.stop()
        assert server.returncode == 0 and not path.exists()


if __name__ == "__main__":
    print(LaneClient(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])).batches())
