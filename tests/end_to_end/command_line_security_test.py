"""The command line: TLS and tokens from options and variables, and policies checked."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from certificates import Authority, hash_of
from server_process import ServerProcess


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    if "PACKHOUSE_CLI" not in os.environ:
        pytest.skip("PACKHOUSE_CLI does not name the command line")
    return subprocess.run(
        [os.environ["PACKHOUSE_CLI"], *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def check_policy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """By the server's own program."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name the server's program")
    return subprocess.run(
        [os.environ["PACKHOUSED"], "policy", "check", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_options_and_variables_reach_the_server(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "ca")
    made = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice {hash_of('mine')}\n", encoding="ascii")
    mine = tmp_path / "mine"
    mine.write_text("mine\n", encoding="ascii")
    ca = str(authority.certificate)
    with ServerProcess(
        *("--tls-cert", str(made.certificate), "--tls-key", str(made.key)),
        *("--token-file", str(tokens), "--data-dir", str(tmp_path / "data")),
    ) as server:
        jobs = ("jobs", "list", "--server", server.address)
        good = run(*jobs, "--tls-ca", ca, "--token-file", str(mine))
        assert good.returncode == 0, good.stderr
        good = run(*jobs, PACKHOUSE_TLS_CA=ca, PACKHOUSE_TOKEN="mine")
        assert good.returncode == 0, good.stderr

        refused = run(*jobs, "--tls-ca", ca)
        assert refused.returncode == 1
        assert "the server refuses the call: it has shown no bearer token" in refused.stderr
        other = Authority(tmp_path / "other").certificate
        refused = run(*jobs, "--tls-ca", str(other))
        assert refused.returncode == 1
        assert "this client refuses the server's certificate" in refused.stderr
        refused = run(*jobs, "--token-file", str(mine))
        assert refused.returncode == 1
        assert "a token is sent over TLS only" in refused.stderr
        refused = run(*jobs, "--tls-cert", ca, "--tls-ca", ca)
        assert "tls_cert and tls_key: one needs the other" in refused.stderr
        refused = run(*jobs, "--tls-ca", str(tmp_path / "nothing"))
        assert "tls_ca: cannot read" in refused.stderr


def test_the_mutual_side_is_named(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "ca")
    made = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    mine = authority.sign("client", "URI:spiffe://here/alice")
    stranger = Authority(tmp_path / "other").sign("client", "DNS:mallory")
    ca = str(authority.certificate)
    with ServerProcess(
        *("--tls-cert", str(made.certificate), "--tls-key", str(made.key)),
        *("--tls-client-ca", ca, "--data-dir", str(tmp_path / "data")),
    ) as server:
        jobs = ("jobs", "list", "--server", server.address, "--tls-ca", ca)
        shown = ("--tls-cert", str(mine.certificate), "--tls-key", str(mine.key))
        good = run(*jobs, *shown)
        assert good.returncode == 0, good.stderr
        refused = run(*jobs)
        assert refused.returncode == 1
        assert "certificate of the client" in refused.stderr
        refused = run(
            *(*jobs, "--tls-cert", str(stranger.certificate), "--tls-key", str(stranger.key))
        )
        assert refused.returncode == 1
        assert "its CA has signed" in refused.stderr or "none of its CAs signed" in refused.stderr


def test_the_python_command_takes_the_same_options(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "ca")
    made = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    (tmp_path / "tokens").write_text(f"alice {hash_of('mine')}\n", encoding="ascii")
    (tmp_path / "mine").write_text("mine\n", encoding="ascii")
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("num_nodes,num_edges\n3,4\n", encoding="ascii")
    command = ("-m", "packhouse", "ingest", str(sizes), "--dataset", "few", "--server")
    with ServerProcess(
        *("--tls-cert", str(made.certificate), "--tls-key", str(made.key)),
        *("--token-file", str(tmp_path / "tokens"), "--data-dir", str(tmp_path / "data")),
    ) as server:
        good = subprocess.run(
            [sys.executable, *command, server.address]
            + ["--tls-ca", str(authority.certificate), "--token-file", str(tmp_path / "mine")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert good.returncode == 0, good.stderr
    assert "few: 1 graphs" in good.stdout


def test_a_policy_is_checked_without_a_server(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nroles:\n- {role: trainer, principals: [alice], namespaces: [team]}\n",
        encoding="ascii",
    )
    good = check_policy(str(policy))
    assert good.returncode == 0
    assert "good; principals: 1" in good.stdout
    rights = check_policy(str(policy), "--principal", "alice", "--name", "team/x")
    assert rights.stdout == "alice in namespace team: view, train\n"
    rights = check_policy(str(policy), "--principal", "alice", "--name", "x")
    assert rights.stdout == "alice in namespace default: nothing\n"
    assert check_policy(str(policy), "--name", "x").returncode == 2
    for role, its_rights in (
        ("viewer", "view"), ("trainer", "view, train"), ("producer", "view, produce"),
        ("owner", "view, train, produce, own"), ("admin", "view, train, produce, own, administer"),
    ):  # fmt: skip
        policy.write_text(
            f"version: 1\nroles:\n- {{role: {role}, principals: [alice, bob], namespaces: ['*']}}\n"
            "namespaces:\n  team:\n    quotas: {streams: 3}\n",
            encoding="ascii",
        )
        told = check_policy(str(policy), "--principal", "bob").stdout
        assert told == f"bob in namespace default: {its_rights}\n"
        told = check_policy(str(policy)).stdout
        assert told == f"{policy}: good; principals: 2, namespaces with quotas: 1\n"
    policy.write_text("version: 1\nroles:\n- {role: boss}\n", encoding="ascii")
    bad = check_policy(str(policy))
    assert bad.returncode == 1
    assert "policy.yaml: line 3: role 'boss' is none of viewer" in bad.stderr
