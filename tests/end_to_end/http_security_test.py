"""The HTTP port: TLS, and who may read its pages."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import time
from typing import Any

import numpy as np
from certificates import Authority, Certificate, hash_of, replace
from server_process import ServerProcess

from packhouse import (
    Client,
    Credentials,
    GraphSchema,
    GraphTable,
    PackhouseError,
    PackOptions,
    TensorSpec,
)

_POLICY = """
version: 1
roles:
- {role: viewer, principals: [prometheus, "spiffe://here/grafana"], namespaces: ["*"]}
- {role: viewer, principals: [alice], namespaces: [team]}
"""


def get(
    server: ServerProcess,
    path: str,
    tls: ssl.SSLContext | None = None,
    token: str = "",
) -> tuple[int, str]:
    """The status and the body. Raises OSError if there is no connection."""
    assert server.http_address is not None
    port = int(server.http_address.rpartition(":")[2])
    connection = (
        http.client.HTTPConnection("localhost", port, timeout=20)
        if tls is None
        else http.client.HTTPSConnection("localhost", port, timeout=20, context=tls)
    )
    try:
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def ask(
    server: ServerProcess, path: str, tls: ssl.SSLContext, token: str = ""
) -> tuple[int, Any]:
    """The status and the answer to a question of the page, once it is there."""
    while True:
        status, body = get(server, f"{path}?view=test", tls, token)
        if status != 202:
            return status, json.loads(body) if body.startswith("{") else body


def context(authority: Authority, mine: Certificate | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority.certificate))
    if mine is not None:
        made.load_cert_chain(mine.certificate, mine.key)
    return made


def serial(server: ServerProcess, tls: ssl.SSLContext) -> object:
    """Of the certificate that a new connection is shown."""
    assert server.http_address is not None
    port = int(server.http_address.rpartition(":")[2])
    with socket.create_connection(("localhost", port), timeout=20) as plain:
        with tls.wrap_socket(plain, server_hostname="localhost") as secured:
            shown = secured.getpeercert()
            assert shown is not None and secured.version() in ("TLSv1.2", "TLSv1.3")
            return shown["serialNumber"]


def test_pages_need_credentials_and_rights(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "ca")
    made = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    tokens = tmp_path / "tokens"
    tokens.write_text(
        "".join(f"{name} {hash_of(name)}\n" for name in ("prometheus", "alice", "mallory")),
        encoding="ascii",
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text(_POLICY, encoding="ascii")
    with ServerProcess(
        *("--tls-cert", str(made.certificate), "--tls-key", str(made.key)),
        *("--tls-client-ca", str(authority.certificate), "--token-file", str(tokens)),
        *("--policy", str(policy), "--http-tls", "--http-auth"),
    ) as server:
        tls = context(authority)
        # Probes have no credentials.
        assert get(server, "/healthz", tls) == (200, "ok\n")
        assert get(server, "/readyz", tls) == (200, "ready\n")
        # Nobody learns which pages there are.
        for path in ("/metrics", "/api/overview", "/api/jobs", "/nothing"):
            status, why = get(server, path, tls)
            assert status == 401 and "it has shown no certificate and no bearer token" in why, path
        status, why = get(server, "/metrics", tls, "guess")
        assert status == 401 and "the server refuses the token" in why
        # Metrics tell of all namespaces.
        assert get(server, "/metrics", tls, "prometheus")[0] == 200
        status, why = get(server, "/metrics", tls, "alice")
        assert status == 403 and "gives principal 'alice' no right 'view' on the server" in why
        assert get(server, "/nothing", tls, "alice")[0] == 404
        assert get(server, "/nothing", tls, "mallory")[0] == 403
        # The page's own files tell nothing; what it asks, it asks as its viewer.
        for path in ("/", "/page.js", "/page.css", "/page.svg"):
            assert get(server, path, tls)[0] == 200, path
        for path in ("/api/overview", "/api/jobs", "/api/data", "/api/sources"):
            assert ask(server, path, tls, "alice")[0] == 200, path
            assert ask(server, path, tls, "mallory")[0] == 403, path

        grafana = authority.sign("grafana", "URI:spiffe://here/grafana")
        assert get(server, "/metrics", context(authority, grafana))[0] == 200
        # Its calls within the server are those of the certificate's principal, too.
        assert ask(server, "/api/sources", context(authority, grafana)) == (
            200, {"datasets": [], "histograms": [], "streams": []}
        )
        stranger = Authority(tmp_path / "other").sign("x", "URI:spiffe://here/grafana")
        status, why = get(server, "/metrics", context(authority, stranger))
        assert status == 401 and "its CA (--tls-client-ca) has not signed it" in why
        # Plain text gets no answer.
        try:
            assert get(server, "/healthz")[0] == 400
        except (OSError, http.client.HTTPException):
            pass

        # A renewed certificate is shown to new connections.
        before = serial(server, tls)
        renewed = authority.sign("server2", "DNS:localhost", "IP:127.0.0.1")
        replace(made.key, renewed.key.read_bytes())
        replace(made.certificate, renewed.certificate.read_bytes())
        deadline = time.monotonic() + 30
        while serial(server, tls) == before and time.monotonic() < deadline:
            pass
        assert serial(server, tls) != before
        assert get(server, "/healthz", tls)[0] == 200


def test_both_ports_answer_alike_to_a_certificate(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "ca")
    made = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nroles:\n- {role: viewer, principals: [me], namespaces: ['*']}\n",
        encoding="ascii",
    )
    me = "URI:me"
    many = [f"DNS:host{number}" for number in range(100)]
    long = "x" * 2000
    # Of each: why not; "" if it is me, or the principal that is refused.
    shown = {
        "plain": (authority.sign("plain", me), ""),
        "usage": (authority.sign("usage", me, also=["keyUsage=digitalSignature"]), ""),
        "client": (authority.sign("client", me, also=["extendedKeyUsage=clientAuth"]), ""),
        "many": (authority.sign("many", *many, me), ""),
        "last": (authority.sign("last", "email:a@b", "DNS:host", me), ""),
        "other": (authority.sign("other", "DNS:host", f"DNS:{'y' * 200}"), "principal 'host'"),
        "long": (authority.sign("long", f"URI:{long}", me), "it has no subject alternative"),
        "nameless": (authority.sign("nameless"), "it has no subject alternative"),
        "expired": (authority.sign("expired", me, ends_in_hours=-1), "has expired"),
        "early": (
            authority.sign("early", me, begins_in_hours=10, ends_in_hours=20), "not valid yet"
        ),
        "serves": (
            authority.sign("serves", me, also=["extendedKeyUsage=serverAuth"]),
            "its extended key usage",
        ),
        "strange": (Authority(tmp_path / "strange").sign("strange", me), "has not signed it"),
    }
    with ServerProcess(
        *("--tls-cert", str(made.certificate), "--tls-key", str(made.key)),
        *("--tls-client-ca", str(authority.certificate), "--policy", str(policy)),
        *("--http-tls", "--http-auth", "--data-dir", str(tmp_path / "data")),
    ) as server:
        port = server.address.rpartition(":")[2]
        for kind, (mine, why_not) in shown.items():
            status, body = get(server, "/metrics", context(authority, mine))
            credentials = Credentials(
                tls_ca=str(authority.certificate),
                tls_cert=str(mine.certificate),
                tls_key=str(mine.key),
            )
            why = ""
            try:
                with Client(
                    f"localhost:{port}",
                    credentials=credentials,
                    connect_timeout=2 if why_not else 20,
                ) as client:
                    list(client.datasets.list())
            except PackhouseError as error:
                why = str(error)
            assert (status == 200) == (why_not == "") == (why == ""), (kind, body, why)
            if why_not:
                assert status in (401, 403) and why_not in body, (kind, body)
                # TLS tells less.
                assert why_not in why or "certificate" in why, (kind, why)


def test_without_the_flag_everybody_reads(tmp_path: pathlib.Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice {hash_of('mine')}\n", encoding="ascii")
    with ServerProcess("--token-file", str(tokens)) as server:
        assert get(server, "/metrics")[0] == 200
        # What is shown must be good.
        assert get(server, "/metrics", token="mine")[0] == 200
        assert get(server, "/metrics", token="other")[0] == 401


def test_the_page_is_told_what_the_server_does(tmp_path: pathlib.Path) -> None:
    flags = ("--data-dir", str(tmp_path), "--lane", f"unix:{tmp_path}/lane", "--max-connections=77")
    table = GraphTable.from_graphs(
        GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),)),
        [{"x": np.zeros(2, np.float32)}] * 3,
    )
    with ServerProcess(*flags) as server, Client(server.address) as client:
        state = json.loads(server.get("/api/state")[1])
        assert re.fullmatch("[0-9a-f]{16}", state.pop("page"))
        assert state.pop("version")
        assert state == {"grpc": server.address, "draining": False, "not_ready": []}
        with client.open_pack(table.schema, PackOptions({"nodes": 4})) as stream:
            stream.send(table)
            assert stream.opened and stream.transport == "lane"
            told: dict[str, Any] = {}
            while told.get("pending_graphs") != 3:
                told = json.loads(server.get("/api/overview")[1])
            assert told["waiting"] == [{"what": "Pack", "open": 1, "awaited": 0, "starved": 0}]
            assert told["lanes"] == {"open": 1, "offered": 1, "batches": 0, "slots": 0}
            assert told["connections"]["most"] == 77 and told["connections"]["open"] >= 1
            memory = {share["name"]: (share["held"], share["most"]) for share in told["memory"]}
            assert list(memory) == ["pending", "unsent", "working"]
            assert 0 < memory["pending"][0] < memory["pending"][1]
            disk = os.statvfs(tmp_path)
            disks = {each["name"]: each for each in told["disks"]}
            assert {name: each["most"] for name, each in disks.items()} == {
                "datasets": 64 << 30, "delivery": 1 << 30, "source_graphs": 64 << 30
            }  # fmt: skip
            for each in disks.values():
                assert 0 <= each["free"] <= disk.f_blocks * disk.f_frsize
            stream.finish()
            assert [len(batch) for batch in stream] == [2, 1]
        told = json.loads(server.get("/api/overview")[1])
        assert (told["totals"]["batches"], told["totals"]["graphs"]) == (2, 3)
        assert told["totals"]["bytes"] > 0 and told["lanes"]["batches"] == 2
        connection = http.client.HTTPConnection(server.http_address or "", timeout=20)
        for path in ("/", "/api/state"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert (answer.getheader("Content-Security-Policy") or "").startswith("default-src 'none'; ")
            assert answer.getheader("X-Content-Type-Options") == "nosniff"
            assert answer.getheader("Referrer-Policy") == "no-referrer"
        connection.close()


def test_other_sites_cannot_ask_what_the_page_asks() -> None:
    with ServerProcess("--http-names", "x.example , graphs.example") as server:
        assert server.http_address is not None

        def status(path: str, **headers: str) -> int:
            connection = http.client.HTTPConnection(server.http_address, timeout=20)
            try:
                connection.request("GET", path, headers=headers)
                return connection.getresponse().status
            finally:
                connection.close()

        assert status("/api/overview", Host="graphs.example:9464") == 200
        assert status("/api/overview", Host="evil.example") == 403
        assert status("/api/jobs", Host="evil.example") == 403
        assert status("/api/overview", **{"Sec-Fetch-Site": "cross-site"}) == 403
        # What monitoring asks, it may ask by every name.
        assert status("/metrics", Host="evil.example") == 200


def test_what_a_header_says_does_not_end_the_server() -> None:
    """gRPC aborts for metadata that is not printable: the page's calls have none of the request's."""
    with ServerProcess() as server:
        assert server.http_address is not None
        host, _, port = server.http_address.rpartition(":")
        for value in (b"x\xff", b"Bearer \x01", b"x\ty"):
            request = b"GET /api/sources?view=a HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n\r\n" % value
            with socket.create_connection((host, int(port)), 20) as connection:
                connection.sendall(request)
                assert connection.recv(12).startswith(b"HTTP/1.1 ")
            # The answer comes to a later question: the call has been made by then.
            status = 202
            while status == 202:
                status, _ = get(server, "/api/sources?view=a")
            assert status == 200
