"""--data-dir: what was acknowledged survives the server; what is wrong with the folder is said."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess

import grpc
import numpy as np
import pytest
from server_process import ServerProcess

from packhouse import Client
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, loader_pb2, loader_pb2_grpc


def append(address: str, nodes: int) -> int:
    """Appends one graph to `d`, which is made if need be; how many there are then."""
    with grpc.insecure_channel(address) as channel:
        stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        try:
            stub.CreateDataset(dataset_pb2.CreateDatasetRequest(name="d"))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        request = dataset_pb2.AppendRequest(dataset="d")
        request.graphs.sizes.num_graphs = 1
        request.graphs.sizes.counts = nodes.to_bytes(4, "little") + bytes(4)
        responses = list(stub.Append(iter([request])))
    assert [response.num_appended for response in responses] == [1]
    return int(responses[0].num_graphs)


def refused(*arguments: str) -> tuple[int, str]:
    """Exit status and last words of a server that should not start."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    done = subprocess.run(
        [os.environ["PACKHOUSED"], "--listen", "127.0.0.1:0", "--http-listen", "", *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_acknowledged_survives_the_server(
    tmp_path: pathlib.Path, sent: signal.Signals
) -> None:
    folder = tmp_path / "made" / "by the server"
    for num_graphs in (1, 2, 3):
        with ServerProcess("--data-dir", str(folder)) as server:
            assert append(server.address, 7) == num_graphs
            server.process.send_signal(sent)
            assert server.process.wait(20) == (0 if sent is signal.SIGTERM else -sent)


def sample(page: str, series: str) -> float:
    """The value of one series of a page of /metrics."""
    (found,) = re.findall(rf"^{re.escape(series)} (\S+)$", page, re.MULTILINE)
    return float(found)


def test_commits_and_bytes_are_counted(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path)) as server:
        append(server.address, 7)
        page = server.get("/metrics")[1]
    assert sample(page, 'packhouse_commits_total{result="durable",store="datasets"}') >= 2
    assert sample(page, 'packhouse_store_bytes{store="datasets"}') > 0
    assert sample(page, 'packhouse_store_max_bytes{store="datasets"}') == 64 << 30
    # Nobody has loaded anything.
    assert sample(page, 'packhouse_store_bytes{store="delivery"}') == 0
    assert sample(page, 'packhouse_store_max_bytes{store="delivery"}') == 1 << 30
    assert sample(page, 'packhouse_commits_total{result="failed",store="delivery"}') == 0


def test_without_a_folder_data_sets_are_refused() -> None:
    with ServerProcess() as server, pytest.raises(grpc.RpcError) as error:
        append(server.address, 7)
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "without a folder for data (--data-dir)" in error.value.details()


def test_a_folder_in_use_is_an_error_that_names_it(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path)) as server:
        status, words = refused("--data-dir", str(tmp_path))
        assert status == 1
        assert f"{tmp_path}/datasets" in words
        assert str(server.process.pid) in words


@pytest.mark.parametrize("store", ["datasets", "delivery"])
def test_the_store_of_another_folder_is_an_error_that_names_it(
    tmp_path: pathlib.Path, store: str
) -> None:
    for folder in ("mine", "other"):
        with ServerProcess("--data-dir", str(tmp_path / folder)) as server:
            append(server.address, 7)
            server.stop()
    shutil.copy(tmp_path / "other" / store / "data.mdb", tmp_path / "mine" / store / "data.mdb")
    status, words = refused("--data-dir", str(tmp_path / "mine"))
    assert status == 1
    assert f"{store}/data.mdb" in words
    assert "--accept-missing" in words


def test_histograms_that_are_lost_before_the_next_start_are_missed(tmp_path: pathlib.Path) -> None:
    with ServerProcess("--data-dir", str(tmp_path)) as server:
        with Client(server.address) as client:
            client.histograms.observe("sizes", np.array([[1, 2]]))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    (tmp_path / "histograms").unlink()
    status, words = refused("--data-dir", str(tmp_path))
    assert status == 1
    assert f"{tmp_path}/histograms" in words


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    status, words = refused("--data-dir", str(tmp_path / "file"))
    assert status == 1
    assert f"--data-dir: {tmp_path}/file: " in words

@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--append-threads", "0"),
        ("--lame-duck", "-1s"),
        ("--lame-duck", "24h1s"),
        ("--max-connection-age", "5"),
        ("--max-connection-age-grace", "-1s"),
        ("--append-threads", "257"),
        ("--max-store-bytes", "1048575"),
        ("--lease-duration", "999ms"),
        ("--lease-duration", "24h1s"),
        ("--lease-duration", "5"),
        ("--max-epochs", "0"),
        ("--max-epochs", "1000001"),
        ("--max-epochs-per-client", "0"),
        ("--epoch-retention", "-1s"),
        ("--epoch-retention", "30d"),
    ],
)
def test_bad_bounds_are_refused(flag: str, value: str) -> None:
    status, words = refused(flag, value)
    assert status == 2
    assert flag in words
    assert value in words


def test_a_congestion_control_that_there_is_not_is_refused() -> None:
    status, words = refused("--tcp-congestion", "nothing")
    assert status == 1
    assert "--tcp-congestion: " in words
