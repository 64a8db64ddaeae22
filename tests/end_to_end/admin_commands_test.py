"""One law over two programs: `packhouse admin` (Python) and `packhoused admin` (C++, where there is no
Python) send the same requests, print the same, and end with the same status.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
from typing import Any, Iterator, NamedTuple

import grpc
import pytest
from certificates import Authority, hash_of
from server_process import ServerProcess

from packhouse.v1 import admin_pb2 as v1
from packhouse.v1 import admin_pb2_grpc

_PROGRAMS = ("PACKHOUSE_CLI", "PACKHOUSED")
_ACTIONS = ("status", "clients", "log-level", "reload", "drain", "move-job", "snapshot")


class Ended(NamedTuple):
    """How a program ended."""

    status: int
    stdout: str
    stderr: str


def both(*arguments: str, environment: dict[str, str] | None = None) -> Ended:
    """Runs both; what they say must be equal, but for their names."""
    if not all(name in os.environ for name in _PROGRAMS):
        pytest.skip("PACKHOUSE_CLI and PACKHOUSED do not name two programs")
    started = [
        subprocess.Popen(
            [os.environ[program], "admin", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        for program in _PROGRAMS
    ]
    ended = []
    for process in started:
        stdout, stderr = (each.decode() for each in process.communicate(timeout=120))
        # gRPC's own lines have a time.
        told = re.sub(r"^[EI]\d{4} .*\n", "", stderr, flags=re.MULTILINE)
        ended.append(Ended(process.returncode, stdout, told.replace("packhoused: ", "packhouse: ", 1)))
    python, server = ended
    assert python.status == server.status, ended
    if "--json" in arguments and python.stdout:
        # 2 and 2.0 are one number, and members have no order.
        assert json.loads(python.stdout) == json.loads(server.stdout)
    else:
        assert python.stdout == server.stdout
    # The words of usage errors are those of each program's parser.
    if python.status != 2:
        assert python.stderr == server.stderr
    return python


class StubAdmin(admin_pb2_grpc.AdminServiceServicer):
    """Gives the answers that it is given, and keeps the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[Any] = []
        # For the next calls, each ended with this.
        self.failure: tuple[grpc.StatusCode, str] | None = None
        # The server that has each job.
        self.owner = ""

    def _answer(self, method: str, request: Any, context: Any) -> Any:
        self.requests.append((method, request))
        if self.owner:
            # As a server tells: gRPC itself is not to try again.
            context.set_trailing_metadata(
                (("packhouse-owner", self.owner), ("grpc-retry-pushback-ms", "-1"))
            )
            context.abort(grpc.StatusCode.UNAVAILABLE, "another server has the job")
        if self.failure:
            context.abort(*self.failure)
        return self.answers.get(method)

    def GetServer(self, request: Any, context: Any) -> Any:
        return self._answer("GetServer", request, context)

    def ListClients(self, request: Any, context: Any) -> Any:
        return self._answer("ListClients", request, context)

    def SetLogLevel(self, request: Any, context: Any) -> Any:
        return self._answer("SetLogLevel", request, context)

    def Reload(self, request: Any, context: Any) -> Any:
        return self._answer("Reload", request, context)

    def Drain(self, request: Any, context: Any) -> Any:
        return self._answer("Drain", request, context)

    def MoveJob(self, request: Any, context: Any) -> Any:
        return self._answer("MoveJob", request, context)

    def TakeSnapshot(self, request: Any, context: Any) -> Iterator[Any]:
        yield from self._answer("TakeSnapshot", request, context)

    def asked(self) -> list[Any]:
        """The requests of both programs: equal pairs, of which it gives one each."""
        requests, self.requests = self.requests, []
        pairs = list(zip(requests[::2], requests[1::2]))
        assert len(requests) % 2 == 0 and all(one == other for one, other in pairs), requests
        return [one for one, _ in pairs]


@contextlib.contextmanager
def serving() -> Iterator[tuple[StubAdmin, str]]:
    stub = StubAdmin()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    admin_pb2_grpc.add_AdminServiceServicer_to_server(stub, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield stub, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def a_server() -> Any:
    answer = v1.GetServerResponse(
        version="1.2.3", is_draining=True, log_level=4, num_connections=1234567,
        owned_jobs=["team/a", "team/b"],
    )  # fmt: skip
    answer.started.FromJsonString("2026-03-01T12:34:56.789Z")
    answer.memory.add(name="pending", held_bytes=1 << 40, bound_bytes=(1 << 64) - 1)
    answer.memory.add(name="working")
    answer.files.extend(some_files().files)
    answer.quotas.add(namespace="team", quota="planning", used=0.256, limit=0.5)
    answer.quotas.add(namespace="größe", quota="epochs", used=2, limit=1e6)
    answer.members.add(address="a:1", is_this=True)
    answer.members.add(address="b:1")
    return answer


def some_files() -> Any:
    answer = v1.ReloadResponse()
    answer.files.add(name="policy", num_reloads=3)
    certificate = answer.files.add(name="certificate", failure="no PEM\x1b[2J block", num_reloads=1000)
    certificate.expires.FromJsonString("2027-03-01T00:00:00Z")
    return answer


def some_clients() -> Any:
    answer = v1.ListClientsResponse()
    answer.clients.add(
        client="alice", is_principal=True, peers=["ipv4:10.0.0.1:1", "ipv4:10.0.0.2:1", "unix:"],
        num_streams=1, num_calls=2000, num_sessions=3, num_leases=4,
    )  # fmt: skip
    answer.clients.add(client="10.0.0.9")
    load = answer.calls.add(
        client="alice", peer="ipv4:10.0.0.1:1", method="Load", is_stream=True, resource="team/d",
        request_id="r-1", trace="t", transport="TRANSPORT_LANE",
    )  # fmt: skip
    load.started.FromJsonString("2026-03-01T12:00:00Z")
    answer.calls.add(client="10.0.0.9", method="ListClients")
    answer.workers.add(client="alice", job="team/run", epoch=7, queue=3, session=9, num_leases=12345)
    answer.workers.add(job="team/run", epoch=7, worker="elastic-1")
    return answer


def test_the_same_answers_are_told_in_the_same_words() -> None:
    with serving() as (stub, address):
        for action, method, answers in (
            ("status", "GetServer", (a_server(), v1.GetServerResponse())),
            ("clients", "ListClients", (some_clients(), v1.ListClientsResponse())),
            ("reload", "Reload", (some_files(), v1.ReloadResponse())),
        ):
            for answer in answers:
                stub.answers[method] = answer
                # What is broken is not in use.
                expected = 1 if action == "reload" and answer.files else 0
                for more in ((), ("--json",)):
                    assert both(action, "--server", address, *more).status == expected
                    assert stub.asked() == [(method, getattr(v1, f"{method}Request")())]


def test_the_same_words_make_the_same_requests() -> None:
    with serving() as (stub, address):
        server = ("--server", address)
        for number, level in enumerate(("trace", "debug", "info", "warning", "error", "off"), 1):
            stub.answers["SetLogLevel"] = v1.SetLogLevelResponse(before=7 - number)
            told = both("log-level", level, *server)
            assert told.stdout.startswith(f"log level: {level}, before: "), told
            assert stub.asked() == [("SetLogLevel", v1.SetLogLevelRequest(level=number))]
        for was_draining, said in ((False, "drains\n"), (True, "is draining already\n")):
            stub.answers["Drain"] = v1.DrainResponse(was_draining=was_draining)
            assert both("drain", "--yes", *server) == (0, said, "")
            assert stub.asked() == [("Drain", v1.DrainRequest())]
        # Where nobody can be asked, nothing is done.
        assert both("drain", *server).status == 2
        assert not stub.requests
        taken = v1.TakeSnapshotResponse(
            folder="/copies/monday", num_files=1234, num_bytes=5 << 30, num_kept_files=7,
            num_kept_bytes=8, is_done=True, total_bytes=5 << 30,
        )  # fmt: skip
        for last in (taken, v1.TakeSnapshotResponse(folder="/copies/monday")):
            # The second stream ends before it is done.
            stub.answers["TakeSnapshot"] = [v1.TakeSnapshotResponse(num_files=1), last]
            for more in ((), ("--json",)):
                told = both("snapshot", "monday", *server, *more)
                assert told.status == (0 if last.is_done else 1)
                assert last.is_done or "[INTERNAL]" in told.stderr
                assert stub.asked() == [("TakeSnapshot", v1.TakeSnapshotRequest(name="monday"))]
        stub.answers["MoveJob"] = v1.MoveJobResponse()
        moved = ("MoveJob", v1.MoveJobRequest(job="team/run", address="b:1"))
        assert both("move-job", "team/run", "--to", "b:1", *server).stdout == "team/run: moved to b:1\n"
        assert stub.asked() == [moved]
        # Another server has the job, and is asked.
        with serving() as (other, elsewhere):
            other.answers["MoveJob"] = v1.MoveJobResponse()
            stub.owner = elsewhere
            assert both("move-job", "team/run", "--to", "b:1", *server).status == 0
            assert stub.asked() == [moved] and other.asked() == [moved]


def test_the_same_failures_are_told_in_the_same_words() -> None:
    commands = {
        "status": (), "clients": (), "log-level": ("info",), "reload": (), "drain": ("--yes",),
        "move-job": ("run", "--to", "b:1"), "snapshot": ("x",),
    }  # fmt: skip
    with serving() as (stub, address):
        stub.failure = (grpc.StatusCode.PERMISSION_DENIED, "principal 'alice'\x1b[2J has no right 'ü'")
        for action in _ACTIONS:
            told = both(action, *commands[action], "--server", address)
            expected = "packhouse: principal 'alice'\\x1b[2J has no right 'ü' [PERMISSION_DENIED]\n"
            assert told == (1, "", expected)
        stub.failure = (grpc.StatusCode.NOT_FOUND, "job 'run': it is not there")
        assert both("move-job", "run", "--to", "b:1", "--server", address).status == 1


def test_words_that_make_no_sense_are_misuse() -> None:
    for words in (
        (), ("statsu",), ("status",), ("status", "--server="), ("log-level", "--server", "x:1"),
        ("log-level", "loud", "--server", "x:1"), ("move-job", "run", "--server", "x:1"),
        ("snapshot", "--server", "x:1"), ("drain", "--json", "--server", "x:1"),
    ):  # fmt: skip
        assert both(*words).status == 2
    options: list[dict[str, set[str]]] = []
    for program in _PROGRAMS:
        options.append({})
        for action in ("", *_ACTIONS):
            shown = subprocess.run(
                [os.environ[program], "admin", *filter(None, [action]), "--help"],
                capture_output=True, text=True, timeout=120, check=True,
            ).stdout  # fmt: skip
            if action:
                options[-1][action] = set(re.findall(r"(?<!\w)--[a-z-]+[a-z]", shown))
            else:
                assert all(each in shown for each in _ACTIONS)
    assert options[0] == options[1]


def test_certificates_and_tokens_are_taken_alike(tmp_path: pathlib.Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    of_server = authority.sign("server", "IP:127.0.0.1")
    (tmp_path / "tokens").write_text(f"alice {hash_of('a')}\noperator {hash_of('o')}\n", encoding="ascii")
    (tmp_path / "policy").write_text(
        "version: 1\nroles:\n- {role: admin, principals: [operator], namespaces: ['*']}\n",
        encoding="ascii",
    )
    for name in "ao":
        (tmp_path / name).write_text(name, encoding="ascii")
    ca, operator = str(authority.certificate), str(tmp_path / "o")
    with ServerProcess(
        *("--tls-cert", str(of_server.certificate), "--tls-key", str(of_server.key)),
        *("--token-file", str(tmp_path / "tokens"), "--policy", str(tmp_path / "policy")),
    ) as server:
        level = ("log-level", "info", "--server", server.address)
        assert both(*level, "--tls-ca", ca, "--token-file", operator).status == 0
        # What the options leave open, the environment says.
        variables = {"PACKHOUSE_TLS_CA": ca, "PACKHOUSE_TOKEN": "o"}
        assert both(*level, environment=variables).status == 0
        denied = both(*level, "--token-file", str(tmp_path / "a"), environment=variables)
        assert denied.status == 1 and "[PERMISSION_DENIED]" in denied.stderr
        unknown = both(*level, "--tls-ca", ca)
        assert unknown.status == 1 and "[UNAUTHENTICATED]" in unknown.stderr
        refused = both(*level, "--tls-ca", str(other.certificate))
        assert refused.status == 1 and "none of its CAs" in refused.stderr
        half = both(*level, "--tls-ca", ca, "--tls-cert", ca)
        assert half.status == 1 and "one needs the other" in half.stderr
        nothing = both(*level, "--tls-ca", str(tmp_path / "nothing"))
        assert nothing.status == 1 and "tls_ca: cannot read it: " in nothing.stderr
    with ServerProcess(
        "--data-dir", str(tmp_path / "data"), "--admin-listen", f"unix:{tmp_path}/admin.sock"
    ):
        # The variables are of the clients that connect elsewhere.
        assert both(*level[:-1], f"unix:{tmp_path}/admin.sock").status == 0
        assert both("status", "--json", "--server", f"unix:{tmp_path}/admin.sock,127.0.0.1:1").status == 0
