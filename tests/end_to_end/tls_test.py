"""Connections by TLS: who is let in, and that certificates are renewed while the server runs."""

from __future__ import annotations

import json
import pathlib
import queue
import re
import socket
import ssl
import subprocess
import time

import grpc
import pytest
from certificates import Authority, Certificate, TokenIssuer, hash_of, replace
from server_process import ServerProcess

from packhouse import Client, Credentials, PackhouseError
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, packing_pb2, packing_pb2_grpc


class Place:
    """A folder with a CA, the server's files, and a server that uses them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "ca")
        self.files = Certificate(folder / "server.crt", folder / "server.key")
        self.log = folder / "log"
        self.install(self.server_certificate("first"))

    def server_certificate(self, name: str, **times: int) -> Certificate:
        return self.authority.sign(name, "DNS:localhost", "IP:127.0.0.1", **times)

    def install(self, made: Certificate) -> None:
        certificate, key = made.read()
        replace(self.files.key, key)
        replace(self.files.certificate, certificate)

    def start(self, *arguments: str) -> ServerProcess:
        return ServerProcess(
            *("--tls-cert", str(self.files.certificate), "--tls-key", str(self.files.key)),
            *("--data-dir", str(self.folder / "data"), "--lame-duck", "0s", *arguments),
            log=self.log.open("w"),
        )

    def start_mutual(self) -> ServerProcess:
        return self.start("--tls-client-ca", str(self.authority.certificate))

    def channel(
        self, server: ServerProcess, client: Certificate | None = None, *, roots: bytes = b""
    ) -> grpc.Channel:
        certificate, key = client.read() if client else (None, None)
        return grpc.secure_channel(
            server.address,
            grpc.ssl_channel_credentials(
                roots or self.authority.certificate.read_bytes(), key, certificate
            ),
            options=[("grpc.use_local_subchannel_pool", 1)],
        )


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


def outcome(channel: grpc.Channel, **metadata: str) -> tuple[grpc.StatusCode, str]:
    """How a call ends that names a data set that is not there."""
    with channel:
        try:
            dataset_pb2_grpc.DatasetServiceStub(channel).DeleteDataset(
                dataset_pb2.DeleteDatasetRequest(name="none"),
                metadata=tuple(metadata.items()),
                timeout=30,
            )
        except grpc.RpcError as error:
            return error.code(), error.details()
    raise AssertionError("there is such a data set")


def served_certificate(server: ServerProcess, authority: pathlib.Path) -> str:
    """What a new connection is shown, in PEM."""
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(["h2"])
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown)


def await_log(path: pathlib.Path, event: str, within: float = 30) -> dict[str, object]:
    """The first line of an event. The server looks at its files once a second."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        for line in path.read_text(encoding="utf-8").splitlines():
            said: dict[str, object] = json.loads(line)
            if said["event"] == event:
                return said
    raise AssertionError(f"no event {event!r}: {path.read_text(encoding='utf-8')}")


def test_a_client_checks_the_server(place: Place, tmp_path: pathlib.Path) -> None:
    with place.start() as server:
        assert outcome(place.channel(server))[0] is grpc.StatusCode.NOT_FOUND
        other = Authority(tmp_path / "other").certificate.read_bytes()
        code, why = outcome(place.channel(server, roots=other))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "certificate verify failed" in why
        with grpc.insecure_channel(server.address) as plain:
            assert outcome(plain)[0] is grpc.StatusCode.UNAVAILABLE


def test_the_server_checks_its_clients(place: Place, tmp_path: pathlib.Path) -> None:
    sign = place.authority.sign
    with place.start_mutual() as server:
        good = sign("trainer", "URI:spiffe://cluster/ns/ml/sa/train", "DNS:trainer")
        assert outcome(place.channel(server, good))[0] is grpc.StatusCode.NOT_FOUND
        failed = await_log(place.log, "call failed")
        assert failed["client"] == "spiffe://cluster/ns/ml/sa/train"

        expired = sign("late", "DNS:late", ends_in_hours=-24)
        foreign = Authority(tmp_path / "other").sign("trainer", "DNS:trainer")
        for client in (None, expired, foreign):
            assert outcome(place.channel(server, client))[0] is grpc.StatusCode.UNAVAILABLE
        code, why = outcome(place.channel(server, sign("nameless")))
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert "the server refuses the client's certificate: it has no subject alternative" in why


def test_tls_is_at_least_1_2(place: Place) -> None:
    with place.start() as server:
        for version, works in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
            done = subprocess.run(
                [
                    *("openssl", "s_client", "-connect", server.address, version, "-alpn", "h2"),
                    *("-cipher", "DEFAULT@SECLEVEL=0", "-CAfile", str(place.authority.certificate)),
                ],
                input=b"",
                capture_output=True,
                timeout=30,
                check=False,
            )
            assert (b"Cipher is (NONE)" not in done.stdout) == works, done.stderr


def test_certificates_are_renewed_and_broken_ones_are_not_used(place: Place) -> None:
    ca = place.authority.certificate
    first = place.files.certificate.read_text(encoding="ascii")
    with place.start() as server, place.channel(server) as channel:
        requests: queue.Queue[packing_pb2.PackRequest | None] = queue.Queue()
        capacity = {"component": "nodes", "rows": 9}
        requests.put(packing_pb2.PackRequest(open={"limits": {"capacities": [capacity]}}))
        stream = packing_pb2_grpc.PackingServiceStub(channel).Pack(iter(requests.get, None))
        assert next(stream).HasField("opened")
        assert served_certificate(server, ca) == first

        # Half of a renewal: the new certificate with the old key.
        second = place.server_certificate("second")
        replace(place.files.certificate, second.certificate.read_bytes())
        failed = await_log(place.log, "not reloaded")
        assert failed["what"] == "certificates"
        assert "is not the key of the first certificate" in str(failed["message"])
        assert 'packhouse_file_broken{file="certificates"} 1' in server.get("/metrics")[1]
        assert served_certificate(server, ca) == first

        place.install(second)
        await_log(place.log, "reloaded")
        renewed = second.certificate.read_text(encoding="ascii")
        end = time.monotonic() + 30
        while served_certificate(server, ca) != renewed:
            assert time.monotonic() < end
        page = server.get("/metrics")[1]
        assert 'packhouse_file_broken{file="certificates"} 0' in page
        assert 'packhouse_file_reload_failures_total{file="certificates"} 1' in page
        found = re.search(r"^packhouse_certificate_expiry_timestamp_seconds (\S+)$", page, re.M)
        assert found is not None
        assert 23 < (float(found.group(1)) - time.time()) / 3600 < 25
        # The connection from before lives on: its stream takes more and ends as usual.
        requests.put(packing_pb2.PackRequest(sizes={"num_graphs": 1, "counts": bytes(8)}))
        requests.put(None)
        assert any(response.HasField("batch") for response in stream)

        expired = place.server_certificate("expired", ends_in_hours=-1).certificate.read_bytes()
        contents = (b"", expired[: len(expired) // 2], expired)
        for number, content in enumerate(contents, 2):
            replace(place.files.certificate, content)
            await_failures(server, number)
            assert outcome(place.channel(server))[0] is grpc.StatusCode.NOT_FOUND


def await_failures(server: ServerProcess, number: int) -> None:
    """Until the server has found so many files that it cannot use."""
    line = f'packhouse_file_reload_failures_total{{file="certificates"}} {number}'
    end = time.monotonic() + 30
    while line not in server.get("/metrics")[1]:
        assert time.monotonic() < end


def test_our_client_says_which_side_refuses_whom(place: Place, tmp_path: pathlib.Path) -> None:
    other = Authority(tmp_path / "other")
    good = place.authority.sign("trainer", "DNS:trainer")
    trusting = Credentials(tls_ca=str(place.authority.certificate))
    mutual = trusting._replace(tls_cert=str(good.certificate), tls_key=str(good.key))
    with place.start_mutual() as server:

        def failure(
            credentials: Credentials, address: str = server.address, within: float = 60
        ) -> str:
            with pytest.raises(PackhouseError) as failed:
                Client(address, credentials=credentials, connect_timeout=within)
            assert failed.value.code is grpc.StatusCode.UNAVAILABLE
            # A refusal is told at once; what may be another reason only at the end.
            assert (f"within {within:g} s" in str(failed.value)) == (within == 1)
            return str(failed.value)

        with Client(server.address, credentials=mutual) as client:
            assert not list(client.datasets.list())
        name = mutual._replace(tls_server_name="another")
        assert "this client refuses the server's certificate" in failure(name)
        untrusting = mutual._replace(tls_ca=str(other.certificate))
        assert "this client refuses the server's certificate" in failure(untrusting)
        assert "the server" in failure(trusting, within=1)
        assert "the server closes the connection: it may want TLS" in failure(
            Credentials(), within=1
        )
    with ServerProcess() as plain:
        assert "the server speaks plain text" in failure(trusting, plain.address)


def test_tokens_from_a_file_that_is_renewed(place: Place) -> None:
    tokens = place.folder / "tokens"
    tokens.write_text(f"alice {hash_of('first')}\nbob {hash_of('second')}\n", encoding="ascii")
    mine = place.folder / "mine"
    mine.write_text("first\n", encoding="ascii")
    credentials = Credentials(tls_ca=str(place.authority.certificate), token_file=str(mine))
    with place.start("--token-file", str(tokens)) as server:
        with Client(server.address, credentials=credentials) as client:
            with pytest.raises(PackhouseError, match="NOT_FOUND"):
                client.datasets.delete("none")
            assert await_log(place.log, "call failed")["client"] == "alice"
            replace(mine, b"second")
            with pytest.raises(PackhouseError, match="NOT_FOUND"):
                client.datasets.delete("none")
            replace(mine, b"third")
            with pytest.raises(PackhouseError) as refused:
                client.datasets.delete("none")
            assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
            assert "the server refuses the token: it is not one that it knows" in str(refused.value)
        # The log is written by another thread, and is complete once the server has ended by itself.
        server.stop()
    clients = [
        json.loads(line)["client"]
        for line in place.log.read_text(encoding="utf-8").splitlines()
        if '"call failed"' in line
    ]
    assert clients[:2] == ["alice", "bob"]
    assert clients[2].startswith("127.0.0.1")


def test_tokens_of_an_issuer_whose_keys_are_exchanged(place: Place) -> None:
    first, second = (TokenIssuer(place.folder / name) for name in ("first", "second"))
    keys = place.folder / "keys"
    keys.write_bytes(first.jwks())
    with place.start("--jwt-keys", str(keys), "--jwt-audience", "packhouse") as server:

        def answer(token: str) -> tuple[grpc.StatusCode, str]:
            return outcome(place.channel(server), authorization=f"Bearer {token}")

        good, of_second = first.token(), second.token()
        assert answer(good)[0] is grpc.StatusCode.NOT_FOUND
        assert await_log(place.log, "call failed")["client"] == "trainer"
        refused = {
            of_second: "signature",
            first.token(exp=int(time.time()) - 3600): "it has expired",
            first.token(aud="others"): "audience",
        }
        for token, why in refused.items():
            code, message = answer(token)
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert "the server refuses the token" in message and why in message

        # Broken keys are not taken; new ones are, and end what the old ones have signed.
        replace(keys, b'{"keys":[]}')
        assert await_log(place.log, "not reloaded")["what"] == "jwt keys"
        assert answer(good)[0] is grpc.StatusCode.NOT_FOUND
        replace(keys, second.jwks())
        end = time.monotonic() + 30
        while answer(of_second)[0] is not grpc.StatusCode.NOT_FOUND:
            assert time.monotonic() < end
        assert answer(good)[0] is grpc.StatusCode.UNAUTHENTICATED


def test_hostile_tokens_are_refused(place: Place) -> None:
    tokens = place.folder / "tokens"
    tokens.write_text(f"alice {hash_of('right')}\n", encoding="ascii")
    with place.start("--token-file", str(tokens)) as server:
        for value in ("", "Bearer", "Bearer ", "Basic right", "right", "Bearer " + "x" * 5000):
            code, why = outcome(place.channel(server), authorization=value)
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert why.startswith("the server refuses")
        with place.channel(server) as channel:
            with pytest.raises(grpc.RpcError) as twice:
                dataset_pb2_grpc.DatasetServiceStub(channel).DeleteDataset(
                    dataset_pb2.DeleteDatasetRequest(name="none"),
                    metadata=(("authorization", "Bearer right"), ("authorization", "Bearer x")),
                )
            assert twice.value.code() is grpc.StatusCode.UNAUTHENTICATED
        code, _ = outcome(place.channel(server), authorization="Bearer right")
        assert code is grpc.StatusCode.NOT_FOUND


def test_a_request_id_comes_back(place: Place) -> None:
    with place.start() as server, place.channel(server) as channel:
        _, call = dataset_pb2_grpc.DatasetServiceStub(channel).ListDatasets.with_call(
            dataset_pb2.ListDatasetsRequest(),
            metadata=(("x-request-id", "r-1"), ("traceparent", "00-abc-def-01")),
        )
        returned = dict(call.initial_metadata())
        assert returned["x-request-id"] == "r-1"
        assert returned["traceparent"] == "00-abc-def-01"
