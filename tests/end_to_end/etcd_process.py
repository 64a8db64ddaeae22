"""etcd as processes of its own, on loopback, in a folder of its own."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Sequence

import pytest
from namespaces import Machine

_START_SECONDS = 60.0
# Between two compactions: there are few writes between them.
_COMPACT_SECONDS = 0.05


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class _Node:
    """One process, with its ports and folder for good."""

    def __init__(
        self, program: str, name: str, folder: pathlib.Path, host: str, arguments: Sequence[str]
    ) -> None:
        self.address = f"{host}:{free_port()}"
        self.peer = f"http://{host}:{free_port()}"
        self.name = name
        self.folder = folder
        self._program = program
        self._scheme = "http"
        self._arguments = tuple(arguments)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, members: str) -> None:
        self.process = subprocess.Popen(
            [
                self._program,
                f"--name={self.name}",
                f"--data-dir={self.folder}",
                f"--listen-client-urls={self._scheme}://{self.address}",
                f"--advertise-client-urls={self._scheme}://{self.address}",
                f"--listen-peer-urls={self.peer}",
                f"--initial-advertise-peer-urls={self.peer}",
                f"--initial-cluster={members}",
                *self._arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Then Python does not fork to start it: gRPC's fork handlers may end the child.
            close_fds=False,
        )

    def become_secure(self, certificate: pathlib.Path, key: pathlib.Path) -> None:
        """With TLS for clients, from the next start on."""
        self._scheme = "https"
        self._arguments += (f"--cert-file={certificate}", f"--key-file={key}")

    def kill(self) -> None:
        """As a crash would."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def ask(self, path: str, body: bytes | None = None) -> Any:
        """An answer in JSON; None if there is none."""
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"http://{self.address}{path}", body), timeout=2
            ) as page:
                return json.load(page)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def is_healthy(self) -> bool:
        answer = self.ask("/health")
        return isinstance(answer, dict) and answer.get("health") == "true"


class EtcdProcess:
    """Runs `num_nodes` nodes from now on; killed at the end of a `with` block.

    Old revisions are compacted all the time, so that whoever reads one finds it gone. Skips the test
    where there is no etcd.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        num_nodes: int = 1,
        machines: Sequence[Machine] = (),
        *,
        compacting: bool = True,
        arguments: Sequence[str] = (),
    ) -> None:
        """With `machines`, each node is on one of them. `compacting`: False where calls are timed.

        `arguments`: more of each node's.
        """
        program = shutil.which("etcd")
        if program is None:
            pytest.skip("there is no etcd: Debian's etcd-server")
        folder.mkdir(exist_ok=True)
        self._ended = threading.Event()
        # Another process may take a port that was free.
        for attempt in range(5):
            self._nodes = [
                _Node(
                    machines[i].command(program) if machines else program,
                    f"n{i}",
                    folder / f"{attempt}-{i}",
                    machines[i].host if machines else "127.0.0.1",
                    arguments,
                )
                for i in range(num_nodes)
            ]
            for i in range(num_nodes):
                self.start(i)
            if self._are_healthy():
                self._compactions = threading.Thread(target=self._compact, daemon=True)
                if compacting:
                    self._compactions.start()
                return
            self._end()
        pytest.fail("etcd does not start")

    def __enter__(self) -> EtcdProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        if self._compactions.is_alive():
            self._compactions.join()
        self._end()

    def _compact(self) -> None:
        """Until the end: drops all revisions before the last one."""
        compacted = 0
        while not self._ended.wait(_COMPACT_SECONDS):
            for node in self._nodes:
                status = None if node.process is None else node.ask("/v3/maintenance/status", b"{}")
                revision = int(status["header"].get("revision", 0)) if status else 0
                if revision <= compacted:
                    continue
                request = json.dumps({"revision": revision}).encode()
                if node.ask("/v3/kv/compaction", request) is not None:
                    compacted = revision
                break

    def _end(self) -> None:
        for node in self._nodes:
            node.kill()

    def _are_healthy(self) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if any(node.process is None or node.process.poll() is not None for node in self._nodes):
                return False
            if all(node.is_healthy() for node in self._nodes):
                return True
        return False

    @property
    def address(self) -> str:
        """Of all nodes, with commas between them."""
        return ",".join(node.address for node in self._nodes)

    def leader(self) -> int | None:
        """The number of the node that leads; None if nobody says so now."""
        for node in self._nodes:
            if node.process is None:
                continue
            status = node.ask("/v3/maintenance/status", b"{}")
            if status is None or not status.get("leader"):
                continue
            for number, each in enumerate(self._nodes):
                if each.process is None:
                    continue
                answer = each.ask("/v3/maintenance/status", b"{}")
                if answer is not None and answer["header"]["member_id"] == status["leader"]:
                    return number
        return None

    def values(self, prefix: str) -> list[bytes]:
        """Of the keys that begin so. Asks the first node, which must run."""
        first = prefix.encode()
        beyond = first[:-1] + bytes([first[-1] + 1])
        request = {
            "key": base64.b64encode(first).decode(),
            "range_end": base64.b64encode(beyond).decode(),
        }
        answer = self._nodes[0].ask("/v3/kv/range", json.dumps(request).encode())
        return [base64.b64decode(found["value"]) for found in answer.get("kvs", [])]

    def put(self, key: str, value: str) -> bool:
        """Whether the first node, which must run, has taken it."""
        request = {
            "key": base64.b64encode(key.encode()).decode(),
            "value": base64.b64encode(value.encode()).decode(),
        }
        return self._nodes[0].ask("/v3/kv/put", json.dumps(request).encode()) is not None

    def fill(self) -> None:
        """Until it takes nothing more (`--quota-backend-bytes`): the alarm NOSPACE."""
        number = 0
        while self.put(f"filler/{number}", "x" * 500_000):
            number += 1

    def make_room(self) -> None:
        """What docs/cluster.md tells for a full etcd: deletes what fill() has put, compacts,
        defragments and disarms the alarm of the only node.
        """
        (node,) = self._nodes
        first = base64.b64encode(b"filler/").decode()
        beyond = base64.b64encode(b"filler0").decode()
        deletion = json.dumps({"key": first, "range_end": beyond}).encode()
        deadline = time.monotonic() + _START_SECONDS
        while not node.is_healthy():
            assert time.monotonic() < deadline
            node.ask("/v3/kv/deleterange", deletion)
            status = node.ask("/v3/maintenance/status", b"{}")
            if status is None:
                continue
            compaction = {"revision": status["header"]["revision"]}
            node.ask("/v3/kv/compaction", json.dumps(compaction).encode())
            node.ask("/v3/maintenance/defragment", b"{}")
            member = status["header"]["member_id"]
            alarm = {"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"}
            node.ask("/v3/maintenance/alarm", json.dumps(alarm).encode())

    def serve_tls(self, certificate: pathlib.Path, key: pathlib.Path) -> None:
        """Starts the only node, which must not run, with TLS for its clients."""
        (node,) = self._nodes
        node.become_secure(certificate, key)
        self.start(0)
        host, _, port = node.address.rpartition(":")
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
                return
            except OSError:
                time.sleep(0.02)
        pytest.fail("etcd does not start with TLS")

    def take_backup(self, folder: pathlib.Path) -> None:
        """Of the only node, which is stopped for it."""
        (node,) = self._nodes
        self.kill(0)
        shutil.copytree(node.folder, folder)
        self._start_again()

    def restore(self, folder: pathlib.Path) -> None:
        """What take_backup() has written is all that there is: the revisions since come again."""
        (node,) = self._nodes
        self.kill(0)
        shutil.rmtree(node.folder)
        shutil.copytree(folder, node.folder)
        self._start_again()

    def _start_again(self) -> None:
        self.start(0)
        if not self._are_healthy():
            pytest.fail("etcd does not start again")

    def start(self, number: int) -> None:
        """Starts a node, with what it has stored."""
        members = ",".join(f"{node.name}={node.peer}" for node in self._nodes)
        self._nodes[number].start(members)

    def kill(self, number: int) -> None:
        """Kills a node, as a crash would."""
        self._nodes[number].kill()

    def pause(self, number: int) -> None:
        """Stops a node: it takes requests, and answers none."""
        process = self._nodes[number].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Lets a node that was paused go on."""
        process = self._nodes[number].process
        assert process is not None
        process.send_signal(signal.SIGCONT)
