"""The demo, on small inputs."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from random_graphs import molecules

from packhouse import LocalServer
from packhouse.demo.__main__ import main


def molecule_file(path: pathlib.Path) -> pathlib.Path:
    table = molecules(np.random.default_rng(0), 500)
    np.savez(
        path,
        node_offsets=table.offsets("nodes"),
        edge_offsets=table.offsets("edges"),
        edge_index=np.stack([table.tensors["senders"], table.tensors["receivers"]]),
        x=table.tensors["x"],
        edge_attr=table.tensors["edge_attr"],
        y=table.tensors["y"],
    )
    return path


def test_whole_graphs_come_back(
    server: LocalServer, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = molecule_file(tmp_path / "molecules.npz")
    status = main(
        ["--dataset", str(dataset), "--server", server.address, "--output", str(tmp_path / "out")]
    )
    output = capsys.readouterr()
    assert status == 0, output.err
    assert "every graph came back exactly once, byte for byte: 500 of 500" in output.out
    assert "every graph arrived exactly once: 500 of 500" in output.out


def test_rejected_graphs_are_told_apart_from_lost_ones(
    server: LocalServer, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hist.csv").write_text("num_nodes,num_edges,count\n3,4,50\n40,60,7\n")
    arguments = ["--dataset", str(tmp_path / "hist.csv"), "--limit", "nodes=20"]
    status = main([*arguments, "--server", server.address, "--output", str(tmp_path)])
    output = capsys.readouterr()
    assert status == 0, output.err
    assert "7 graphs are too large" in output.out
    assert "50 of 50" in output.out


def test_a_picture_that_was_asked_for_must_be_drawn(
    server: LocalServer, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sizes.csv").write_text("num_nodes,num_edges\n3,4\n")
    arguments = ["--dataset", str(tmp_path / "sizes.csv"), "--cli", str(tmp_path / "nothing")]
    status = main([*arguments, "--server", server.address, "--output", str(tmp_path)])
    assert status == 1
    assert "no picture" in capsys.readouterr().out


def test_the_tool_is_asked_for_the_picture_with_the_limits(
    server: LocalServer, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\necho "$@" | tee "{tmp_path}/histogram.svg"\n')
    tool.chmod(0o755)
    (tmp_path / "sizes.csv").write_text("num_nodes,num_edges\n3,4\n")
    arguments = ["--dataset", str(tmp_path / "sizes.csv"), "--cli", str(tool)]
    arguments += ["--limit", "nodes=50", "--limit", "edges=60"]
    status = main([*arguments, "--server", server.address, "--output", str(tmp_path)])
    picture = str(tmp_path / "histogram.svg")
    assert status == 0
    assert f"picture of the sizes: {picture}" in capsys.readouterr().out
    assert pathlib.Path(picture).read_text().split() == [
        *("histogram", "--server", server.address, "--name", "demo", "--plot", picture),
        *("--limit", "nodes=50", "--limit", "edges=60"),
    ]


def test_a_missing_data_set_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dataset", str(tmp_path / "absent.npz"), "--output", str(tmp_path)]
    assert main([*arguments, "--server", "127.0.0.1:1"]) == 1
    assert "absent.npz" in capsys.readouterr().err
