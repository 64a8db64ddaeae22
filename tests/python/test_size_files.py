"""Lists of sizes: the package and the command read the same files, as the same sizes."""

from __future__ import annotations

import collections
import contextlib
import gzip
import io
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from packhouse.command import program
from packhouse.files import reading as files, npz, size_files

COMMAND = os.environ.get("PACKHOUSE_CLI")
ONE = "num_nodes,num_edges\n24,50\n10,18\n"
READ = {
    "plain": ONE,
    "bare names": "nodes,edges\n24,50\n10,18\n",
    "no line end": ONE[:-1],
    "lines of Windows": ONE.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + ONE,
    "spaces, empty lines at the end": " num_nodes , num_edges \n 24 , 50\n10,18 \n\n \r\n",
    "pandas": ",num_nodes,num_edges\n0,24,50\n1,10,18\n",
    "pandas, filtered": ",num_nodes,num_edges\n3,24,50\n17,10,18\n",
    "R": '"","num_nodes","num_edges"\n"1",24,50\n"2",10,18\n',
    "all in quotes": '"num_nodes","num_edges"\n"24","50"\n"10","18"\n',
    "a spreadsheet in German": "num_nodes;num_edges\r\n24;50\r\n10;18\r\n",
    "a spreadsheet's own line": "sep=;\r\nnum_nodes;num_edges\r\n24;50\r\n10;18\r\n",
    "tabs and quotes": '"num_nodes"\t"num_edges"\n"24"\t"50"\n"10"\t"18"\n',
    "tabs and row numbers": "\tnum_nodes\tnum_edges\n0\t24\t50\n1\t10\t18\n",
    "tabs, as a spreadsheet says": "sep=\t\r\nnum_nodes\tnum_edges\r\n24\t50\r\n10\t18\r\n",
    "tabs": "num_nodes\tnum_edges\n24\t50\n10\t18\n",
    "zeros before": "num_nodes,num_edges\n0024,50\n10,018\n",
    "counted": "num_nodes,num_edges,count\n24,50,1\n10,18,1\n9,9,0\n",
    "counted first": "count,num_nodes,num_edges\n1,24,50\n1,10,18\n",
    "counted between": ",nodes,count,edges\n0,24,1,50\n1,10,1,18\n",
}
REFUSED = {
    "": ": is empty",
    "num_nodes\n": ": has a header but no sizes",
    "24,50\n10,18\n": ":1: column '24' is a number",
    "num_nodes,num_edges\n24.7,50\n": ":2: num_nodes is '24.7', not a whole number from 0 to 4294967295",
    "num_nodes,num_edges\n24,50\n1.234,5\n": ":3: num_nodes is '1.234'",
    "num_nodes,count\n24,2.9\n": ":2: count is '2.9'",
    'nodes,edges\n"1,234",5\n': ":2: nodes is '1,234'",
    "nodes\n1e3\n": ":2: nodes is '1e3'",
    "nodes\nNaN\n": ":2: nodes is 'NaN'",
    "nodes\n-1\n": ":2: nodes is '-1'",
    "nodes\n4294967296\n": ":2: nodes is '4294967296'",
    "nodes\n99999999999999999999999\n": ":2: nodes is '99999999999999999999999'",
    "nodes,count\n1,18446744073709551616\n": ":2: count is '18446744073709551616'",
    "nodes\n1\n\n2\n": ":3: is empty",
    "nodes,edges\n1\n": ":2: '1' has 1 values, the header has 2 columns: nodes, edges",
    # No comma of a thousand in the one column there is.
    "nodes\n1,234\n": ":2: '1,234' has 2 values, the header has 1 columns: nodes",
    "nodes,edges\n1,2,3\n": ":2: '1,2,3' has 3 values",
    "nodes,nodes\n1,2\n": ":1: column 'nodes' is there twice",
    "nodes,edges,n\n1,2,3\n": ":1: column 'n': are these the graphs of a row?",
    "nodes,Count\n1,2\n": ":1: column 'Count': are these the graphs of a row?",
    "freq,nodes\n1,2\n": ":1: column 'freq': are these the graphs of a row?",
    ",nodes\n1,24\n1,10\n": "the first column has no name, and is no row number",
    "id nodes\n1\n": ":1: column 'id nodes' is no component name",
    "num_graphs\n1\n": ":1: column 'num_graphs' is reserved",
    "nodes\n" + "1" * (1 << 21): ":2: is longer than 1048576 bytes",
}
KINDS = {
    b"\x89HDF\r\n\x1a\n\0\0\0\0": "is an HDF5 file, no list of sizes",
    b'<?xml version="1.0"?><graphml/>\n': "is an XML file, as GraphML is one, no list of sizes",
    b"\x80\x04\x95\0\0\0\0": "is a pickle, no list of sizes",
    b"nodes\0edges\n": "is no text",
    "nodes,edges\n1,2\n".encode("utf-16"): "is in UTF-16: save it as UTF-8",
    "nodes,edges\n1,2\n".encode("utf-16-le"): "is in UTF-16: save it as UTF-8",
}


def of_command(path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """In this process, where a start would take longer than all else."""
    arguments = ["histogram", "--sizes", str(path), "--csv", f"{path}.out"]
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        status = program.main(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), told.getvalue())


def test_the_command_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    if COMMAND is None:
        pytest.skip("PACKHOUSE_CLI does not name the command line")
    path = tmp_path / "wrong.csv"
    path.write_text("nodes\n-1\n")
    ran = subprocess.run(
        [COMMAND, "histogram", "--sizes", str(path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == of_command(path).returncode == 1
    assert ran.stderr == of_command(path).stderr


def counted(sizes: np.ndarray) -> collections.Counter[tuple[int, ...]]:
    return collections.Counter(map(tuple, sizes.tolist()))


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("gzipped", [False, True])
def test_what_others_write_is_read_by_both(
    tmp_path: pathlib.Path, kind: str, gzipped: bool
) -> None:
    path = tmp_path / "sizes.csv"
    path.write_bytes(gzip.compress(READ[kind].encode()) if gzipped else READ[kind].encode())
    table = size_files.load(path)
    assert table.schema.components == ("nodes", "edges")
    assert counted(table.sizes) == {(24, 50): 1, (10, 18): 1}
    ran = of_command(path)
    assert ran.returncode == 0, ran.stderr
    assert size_files.load(f"{path}.out").schema == table.schema
    assert counted(size_files.load(f"{path}.out").sizes) == counted(table.sizes)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_is_wrong_is_named_by_both(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        size_files.load(path)
    assert REFUSED[text] in str(error.value) and str(path) in str(error.value)
    ran = of_command(path)
    assert ran.returncode not in (0, -6, -11) and REFUSED[text] in ran.stderr, ran.stderr


@pytest.mark.parametrize("content", KINDS)
def test_what_is_no_list_of_sizes_is_said_by_both(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "other.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=KINDS[content]):
        size_files.load(path)
    ran = of_command(path)
    assert KINDS[content] in ran.stderr
    assert not any(ord(letter) < 32 and letter != "\n" for letter in ran.stderr)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_errors_and_never_tracebacks(tmp_path: pathlib.Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    text = "num_nodes,num_edges\n" + "".join(f"{i},{i * 7}\n" for i in range(400))
    packed = gzip.compress(text.encode())
    np.savez(tmp_path / "graphs.npz", node_offsets=np.arange(9), edge_offsets=np.arange(9))
    archive = (tmp_path / "graphs.npz").read_bytes()
    for _ in range(60):
        for name, content in (("a.csv", text.encode()), ("b.csv.gz", packed), ("c.npz", archive)):
            damaged = bytearray(content)
            if random.integers(2):
                del damaged[int(random.integers(len(damaged))) :]
            else:
                place = int(random.integers(len(damaged)))
                damaged[place] ^= int(random.integers(1, 256))
            path = tmp_path / name
            path.write_bytes(damaged)
            try:
                (npz if name.endswith("npz") else size_files).load(path)
            except ValueError as error:
                assert str(path) in str(error)


def test_many_rows_are_those_of_the_file(tmp_path: pathlib.Path) -> None:
    # More than what is read at a time, with quotes in the middle.
    rows = [(i, i * 7 % 4099) for i in range(600_000)]
    lines = [f'"{a}",{b}\n' if a % 100_000 == 7 else f"{a},{b}\n" for a, b in rows]
    path = tmp_path / "many.csv"
    path.write_text("nodes,edges\n" + "".join(lines))
    np.testing.assert_array_equal(size_files.load(path).sizes, np.array(rows))
    path.write_text("nodes,edges\n" + "".join(lines) + "7,x\n")
    with pytest.raises(ValueError, match=r"many.csv:600002: edges is 'x'"):
        size_files.load(path)


def read(text: str) -> size_files.SizeTable:
    return size_files.read_stream(io.BytesIO(text.encode()), "a pipe")


def test_what_is_just_within_each_bound_is_read() -> None:
    table = read("nodes,count\n4294967295,3\n0,000000000000000000000007\n")
    assert table.sizes.tolist() == [[4294967295], [0]] and table.sizes.dtype == np.uint32
    assert table.counts is not None and table.counts.tolist() == [3, 7] and table.num_graphs == 10
    assert read("nodes\n1\n").num_graphs == 1 and read("nodes\n1\n").counts is None
    many = (1 << 64) - 1
    table = read(f"nodes,count\n1,{many}\n2,{1 << 63}\n3,7\n4,{many}\n")
    assert table.counts is not None and table.counts.tolist() == [many, 1 << 63, 7, many]
    assert table.num_graphs == 2 * many + (1 << 63) + 7
    for extra, is_read in ((0, True), (1, False)):
        names = [f"c{number}" for number in range(size_files._MOST_COMPONENTS + extra)]
        text = f"{','.join(names)}\n{','.join('1' for _ in names)}\n"
        if is_read:
            assert len(read(text).components) == len(names)
            continue
        with pytest.raises(ValueError, match=f"{len(names)} components, at most {len(names) - 1} are"):
            read(text)
    with pytest.raises(ValueError, match="a pipe:1: no column names a component"):
        read("count\n1\n")
    with pytest.raises(ValueError, match="a pipe:3: is longer than 1048576 bytes"):
        read("nodes\n1\n" + "2" * ((1 << 20) + 1) * 2)


def test_graphs_of_a_histogram_come_in_an_order_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = read("nodes,count\n1,40\n2,60\n")
    first = size_files.expanded(table, "a").sizes[:, 0].tolist()
    assert sorted(first) == [1] * 40 + [2] * 60 != first
    assert size_files.expanded(table, "a", seed=0).sizes[:, 0].tolist() == first
    assert size_files.expanded(table, "a", seed=1).sizes[:, 0].tolist() != first
    for most, is_read in ((100, True), (99, False)):
        monkeypatch.setattr(size_files, "_MOST_GRAPHS", most)
        if is_read:
            assert len(size_files.expanded(table, "a")) == 100
            continue
        with pytest.raises(ValueError, match="a.csv: the counts add up to more than 99 graphs"):
            size_files.expanded(table, "a.csv")


def test_what_was_read_of_a_file_comes_first() -> None:
    for sizes in ([1, 1, 1, 1, 1, 1], [3, 3], [2, 4], [6], [-1], [1, -1], [0, 6]):
        begun = size_files._Begun(b"ab", io.BytesIO(b"cdef"))
        parts = [begun.read(size) for size in sizes]
        assert b"".join(parts) == b"abcdef"
        assert all(size < 0 or len(part) == size for size, part in zip(sizes, parts))


@pytest.mark.parametrize(
    "name, content, says",
    [
        ("graphs.nxs", b"\x89HDF\r\n\x1a\n", "is an HDF5 file: name it .h5"),
        ("graphs.pkl", b"\x80\x05\x95", "is a pickle: load it in Python"),
        ("graphs.graphml", b"<graphml>", "is a GraphML file: load it in Python"),
        ("graphs.dat", b"PAR1....", "is a Parquet file: name it .parquet"),
        ("graphs.bin", b"\0\1\2\3", "is no text"),
        ("graphs.txt", b"hello", "its ending tells of no kind of file"),
    ],
)
def test_files_of_other_kinds_are_named(
    tmp_path: pathlib.Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: {says}"):
        files.tables([tmp_path / name])
    with pytest.raises(ValueError, match="is a folder"):
        files.tables([tmp_path])
    command = [sys.executable, "-m", "packhouse", "ingest", str(tmp_path / name), "--dataset", "d"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1 and "Traceback" not in ran.stderr and says in ran.stderr
