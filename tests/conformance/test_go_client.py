"""A Go client that is written from the protos alone, built by Debian's Go and run."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

from packhouse import LocalServer

REPOSITORY = pathlib.Path(__file__).parents[2]
# Where Debian's packages of Go's libraries are: nothing is fetched.
LIBRARIES = pathlib.Path("/usr/share/gocode")


def random_sizes(num_graphs: int) -> str:
    numbers = np.random.default_rng(7)
    nodes = numbers.integers(1, 200, num_graphs)
    edges = numbers.integers(0, 900, num_graphs)
    return "".join(f"{n} {e}\n" for n, e in zip(nodes, edges))


def test_a_go_client_from_the_protos_alone(server: LocalServer, tmp_path: pathlib.Path) -> None:
    go, protoc = "/usr/bin/go", "/usr/bin/protoc"
    if not (pathlib.Path(go).exists() and (LIBRARIES / "src/google.golang.org/grpc").exists()):
        pytest.skip("the packages of the section [go] of deploy/debian-packages.txt are missing")
    source = tmp_path / "src"
    source.mkdir()
    protos = sorted(
        str(path.relative_to(REPOSITORY / "proto"))
        for path in (REPOSITORY / "proto/packhouse/v1").glob("*.proto")
    )
    # No option maps a file: go_package says it all.
    subprocess.run(
        [protoc, "-I.", f"--go_out={source}", f"--go-grpc_out={source}", *protos],
        cwd=REPOSITORY / "proto",
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        check=True,
    )
    shutil.copy(REPOSITORY / "tests/conformance/go/client.go", tmp_path / "client.go")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GO")},
        "GO111MODULE": "off",
        "GOCACHE": str(tmp_path / "cache"),
        "GOPATH": f"{tmp_path}:{LIBRARIES}",
        "GOTOOLCHAIN": "local",
    }
    # All services, not only those that the client calls.
    subprocess.run([go, "build", "packhouse/v1"], env=environment, cwd=tmp_path, check=True)
    program = tmp_path / "client"
    subprocess.run(
        [go, "build", "-o", program, "client.go"], env=environment, cwd=tmp_path, check=True
    )
    done = subprocess.run(
        [program, server.address],
        input=random_sizes(500),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    packs, batches = (int(word) for word in done.stdout.split() if word.isdigit())
    # The plan has the whole histogram before it, the stream 1,024 graphs: as many, or fewer packs.
    assert 0 < packs <= batches
