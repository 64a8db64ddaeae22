"""The packhouse command line against the real server.

PACKHOUSE_CLI and PACKHOUSED name the two programs; the build sets them. PACKHOUSE_SHARED_DATA may
name a folder of real size distributions (hist/*.csv, sizes/*.csv.gz); without it those tests are
skipped.
"""

import csv
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import xml.etree.ElementTree
from collections import Counter
from collections.abc import Iterator

import pytest
import warm_command

CLI = os.environ.get("PACKHOUSE_CLI", "")
SERVER = os.environ.get("PACKHOUSED", "")
SHARED = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/nonexistent")

pytestmark = pytest.mark.skipif(
    not (CLI and SERVER), reason="PACKHOUSE_CLI and PACKHOUSED name the programs to test"
)
needs_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="PACKHOUSE_SHARED_DATA names no folder of real data"
)

Result = subprocess.CompletedProcess[str]


def run(*arguments: object, **environment: str) -> Result:
    """Runs the command line; `environment` is added to this process's own."""
    return warm_command.run(*arguments, **environment)


def succeed(*arguments: object, **environment: str) -> str:
    """Runs the command line and returns its output."""
    result = run(*arguments, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def small_sizes() -> list[tuple[int, int]]:
    """A thousand sizes with edges about twice the nodes; always the same ones."""
    generator = random.Random(1)
    sizes = []
    for _ in range(1000):
        nodes = generator.randint(1, 60)
        sizes.append((nodes, 2 * nodes + generator.randint(-1, 6)))
    return sizes


@pytest.fixture(name="sizes_file")
def sizes_file_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    """small_sizes() in a gzipped file."""
    path = tmp_path / "small.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("num_nodes,num_edges\n")
        file.writelines(f"{nodes},{edges}\n" for nodes, edges in small_sizes())
    return path


@pytest.fixture(name="histogram_file")
def histogram_file_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    """The histogram of small_sizes()."""
    path = tmp_path / "small_histogram.csv"
    with open(path, "w", encoding="ascii") as file:
        file.write("num_nodes,num_edges,count\n")
        for (nodes, edges), count in sorted(Counter(small_sizes()).items()):
            file.write(f"{nodes},{edges},{count}\n")
    return path


@pytest.fixture(name="server", scope="module")
def server_fixture() -> Iterator[str]:
    """The address of a server that outlives one command."""
    with subprocess.Popen(
        [SERVER, "--listen", "127.0.0.1:0", "--http-listen", "", "--lame-duck", "0s"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            assert ready["event"] == "listening"
            yield ready["grpc"]
        finally:
            process.send_signal(signal.SIGTERM)


def read_assignment(path: pathlib.Path) -> dict[int, int]:
    """graph id -> batch id, from `pack --output`."""
    with open(path, encoding="ascii") as file:
        return {int(row["graph_id"]): int(row["batch_id"]) for row in csv.DictReader(file)}


def cells(output: str, name: str) -> list[str]:
    """The cells of the table row that begins with `name`."""
    rows = [line for line in output.splitlines() if line.startswith(name)]
    assert len(rows) == 1, output
    return rows[0][len(name) :].split()


@pytest.mark.parametrize("order", [(), ("--shuffle", 3)])
def test_pack_puts_every_graph_in_one_batch_within_the_limits(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path, order: tuple[object, ...]
) -> None:
    output = tmp_path / "assignment.csv"
    succeed("pack", "--sizes", sizes_file, "--limit", "nodes=50", "--limit", "edges=110",
            "--limit", "graphs=9", "--output", output, *order)
    assignment = read_assignment(output)
    sizes = small_sizes()
    fitting = {i for i, (nodes, edges) in enumerate(sizes) if nodes <= 50 and edges <= 110}
    assert assignment.keys() == fitting
    for batch in set(assignment.values()):
        members = [sizes[graph] for graph in assignment if assignment[graph] == batch]
        assert sum(nodes for nodes, _ in members) <= 50
        assert sum(edges for _, edges in members) <= 110
        assert len(members) <= 9


def test_pack_counts_rejected_graphs_and_beats_next_fit(sizes_file: pathlib.Path) -> None:
    output = succeed("pack", "--sizes", sizes_file, "--limit", "nodes=50", "--limit", "edges=110",
                     "--look-ahead", 256)
    too_large = sum(nodes > 50 or edges > 110 for nodes, edges in small_sizes())
    ours = cells(output, "packhouse")
    next_fit = cells(output, "next-fit, in this order")
    bound = cells(output, "no fewer batches than")
    assert ours[:2] == next_fit[:2] == [str(1000 - too_large), str(too_large)]
    assert int(bound[2]) <= int(ours[2]) <= int(next_fit[2])


def test_pack_tells_how_much_of_the_limits_is_filled(tmp_path: pathlib.Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("num_nodes,num_edges\n" + "6,1\n" * 4)
    text = succeed("pack", "--sizes", sizes, "--limit", "nodes=8", "--limit", "edges=4")
    for name in ("packhouse", "next-fit, in this order", "no fewer batches than"):
        row = cells(text, name)
        batches = int(row[2])
        assert [float(cell) for cell in row[-2:]] == pytest.approx(
            [100 * 24 / (8 * batches), 100 * 4 / (4 * batches)], abs=0.01
        )
    assert cells(text, "packhouse")[2] == "4"


def test_pack_says_why_graphs_are_rejected_and_fails_if_most_are(tmp_path: pathlib.Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("num_nodes,num_edges\n" + "9,1\n" * 3 + "5,1\n" * 4)
    text = succeed("pack", "--sizes", sizes, "--limit", "nodes=8", "--limit", "edges=8")
    assert "\nfirst rejected: graph 0 has 9 nodes, at most 8 fit a batch\n" in text
    process = run("pack", "--sizes", sizes, "--limit", "nodes=4", "--limit", "edges=8")
    assert process.returncode == 1
    assert "7 of 7 graphs, which is most of them, do not fit the limits" in process.stderr
    assert cells(process.stdout, "packhouse")[:2] == ["0", "7"]


def test_pack_names_the_bound_of_a_component_without_a_limit(tmp_path: pathlib.Path) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text(f"num_nodes,num_edges\n5,{2**31}\n5,1\n5,1\n")
    text = succeed("pack", "--sizes", sizes, "--limit", "nodes=8")
    assert "; edges without a limit; " in text.splitlines()[0]
    assert (f"\nfirst rejected: graph 0 has {2**31} edges, at most {2**31 - 1} fit a batch, whose "
            "rows are numbered in 32 bits\n") in text


def test_pack_of_a_histogram_expands_it(histogram_file: pathlib.Path) -> None:
    output = succeed("pack", "--sizes", histogram_file, "--limit", "nodes=100", "--shuffle", 1)
    assert cells(output, "packhouse")[0] == "1000"


def test_pack_with_a_padding_graph_keeps_its_rows_free(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "assignment.csv"
    succeed("pack", "--sizes", sizes_file, "--limit", "graphs=4", "--limit", "nodes=1000",
            "--limit", "edges=9000", "--padding", "graph", "--output", output)
    assert max(Counter(read_assignment(output).values()).values()) == 3


def test_pack_for_a_device_chooses_the_limits(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    device = tmp_path / "device.json"
    device.write_text(json.dumps({
        "components": [{"component": "nodes", "max_rows": 300, "multiple_of": 8},
                       {"component": "edges", "max_rows": 900, "multiple_of": 8}],
        "max_distinct_shapes": 3}))
    outputs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in outputs:
        text = succeed("pack", "--sizes", sizes_file, "--device", device, "--padding", "masked",
                       "--calibration-graphs", 500, "--output", path)
    assert "device.json: 3 shapes chosen from 500 graphs" in text
    assert cells(text, "packhouse")[:2] == ["1000", "0"]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_pack_tells_that_sizes_change(tmp_path: pathlib.Path) -> None:
    sizes = tmp_path / "sizes.csv"
    rows = [f"{10 + i % 20},{40 if i < 4000 else 5}" for i in range(8000)]
    sizes.write_text("\n".join(["num_nodes,num_edges", *rows]) + "\n")
    arguments = ("--sizes", sizes, "--limit", "nodes=512", "--limit", "edges=1024", "--drift")
    told = [line for line in succeed("pack", *arguments).splitlines() if line.startswith("drift: ")]
    assert len(told) == 1 and "the sizes changed at about graph " in told[0], told
    assert "better: nodes=" in told[0]
    assert "drift: " not in succeed("pack", *arguments, "--shuffle", 1)


@pytest.mark.parametrize("arguments, complaint", [
    ((), "--limit or --device is needed"),
    (("--limit", "nodes=5", "--device", "x.json"), "not both"),
    (("--limit", "nodes=5", "--calibration-graphs", 9), "it needs --device"),
    (("--device", "/nowhere/x.json"), "/nowhere/x.json: No such file or directory"),
])
def test_pack_wants_limits_or_a_device(
    sizes_file: pathlib.Path, arguments: tuple[object, ...], complaint: str
) -> None:
    process = run("pack", "--sizes", sizes_file, *arguments)
    assert process.returncode == 2
    assert complaint in process.stderr


def test_a_device_file_with_something_else_is_named(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    device = tmp_path / "device.json"
    device.write_text('{"memory": 5}')
    process = run("pack", "--sizes", sizes_file, "--device", device)
    assert process.returncode == 2
    assert "device.json: no device profile" in process.stderr and "memory" in process.stderr


def test_plan_of_sizes_and_of_their_histogram_are_the_same(
    sizes_file: pathlib.Path, histogram_file: pathlib.Path
) -> None:
    limits = ["--limit", "nodes=100", "--limit", "edges=220", "--compare", "all", "--json"]
    plans = [json.loads(succeed("plan", "--sizes", path, *limits))
             for path in (sizes_file, histogram_file)]
    for plan in plans:
        for summary in [plan["best"], *plan["summaries"]]:
            summary.pop("elapsed_seconds")
    assert plans[0] == plans[1]


def test_plan_uses_up_the_histogram_within_the_limits(histogram_file: pathlib.Path) -> None:
    plan = json.loads(succeed("plan", "--sizes", histogram_file, "--limit", "nodes=100", "--limit",
                              "edges=220", "--limit", "graphs=7", "--json", "--patterns", 1000000,
                              "--compare", "all"))
    used: Counter[tuple[int, int]] = Counter()
    packs = 0
    for pattern in plan["patterns"]:
        packs += pattern["repeats"]
        for graph in pattern["graphs"]:
            used[graph["nodes"], graph["edges"]] += pattern["repeats"] * graph["copies"]
        assert sum(g["copies"] * g["nodes"] for g in pattern["graphs"]) <= 100
        assert sum(g["copies"] * g["edges"] for g in pattern["graphs"]) <= 220
        assert sum(g["copies"] for g in pattern["graphs"]) <= 7
    assert used == Counter(small_sizes())
    best = plan["best"]
    assert best["packs"] == packs >= best["lower_bound"]
    assert best["gap"] == pytest.approx(packs / best["lower_bound"] - 1)
    assert best["packs"] == min(
        summary["packs"] for summary in plan["summaries"]
        if summary["keeps_limits"] and not summary["unfinished"])
    assert {summary["section"] for summary in plan["summaries"]} == {
        "planner", "heuristic", "notebook", "baseline"}


def test_plan_and_tune_know_what_padding_keeps_free(histogram_file: pathlib.Path) -> None:
    plan = ("plan", "--sizes", histogram_file, "--limit", "edges=220", "--limit", "graphs=7",
            "--no-tuple-packing", "--no-baselines", "--no-notebook")
    padded = json.loads(succeed(*plan, "--limit", "nodes=101", "--padding", "graph", "--json"))
    assert [c["capacity"] for c in padded["best"]["components"]] == [101, 220, 7]
    assert padded["best"]["components"][2]["fullest_pack"] <= 6
    result = run(*plan, "--limit", "nodes=60", "--padding", "graph")
    assert result.returncode == 1
    assert "nodes 60 > 59, the usable bound: padding keeps 1 of the 60 free" in result.stderr

    tune = ("tune", "--sizes", histogram_file, "--max", "nodes=120", "--max", "edges=260",
            "--padding", "graph")
    tuned = json.loads(succeed(*tune, "--json"))
    chosen = tuned["shapes"][0]["capacities"]
    assert set(chosen) == {"nodes", "edges", "graphs"}
    text = succeed(*tune)
    assert ", padding graph\n" in text
    assert "Padding keeps 1 of nodes and 1 of graphs free in each batch." in text
    assert f"graphs {chosen['graphs']} is what the fullest pack needs." in text


def test_plan_prints_patterns(histogram_file: pathlib.Path) -> None:
    output = succeed("plan", "--sizes", histogram_file, "--limit", "nodes=100", "--patterns", 3)
    assert sum(" packs of  " in line for line in output.splitlines()) == 3
    assert sum(line.startswith("* ") for line in output.splitlines()) == 2  # The best, the legend.


def test_histogram_sums_up_and_writes(
    sizes_file: pathlib.Path, histogram_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for path in (sizes_file, histogram_file):
        written = tmp_path / "written.csv"
        output = succeed("histogram", "--sizes", path, "--csv", written)
        assert written.read_bytes() == histogram_file.read_bytes()
        nodes = [n for n, _ in small_sizes()]
        assert cells(output, "nodes") == [
            str(sum(nodes)), f"{sum(nodes) / len(nodes):.2f}", str(max(nodes))]


def test_histogram_leaves_nothing_on_a_server(sizes_file: pathlib.Path, server: str) -> None:
    succeed("histogram", "--sizes", sizes_file, "--server", server)
    result = run("histogram", "--name", "unheard-of", "--server", server)
    assert result.returncode == 1
    assert "NOT_FOUND" in result.stderr


@pytest.mark.parametrize("axes", [(), ("--axes", "edges")])
def test_histogram_draws(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path, axes: tuple[str, ...]
) -> None:
    picture = tmp_path / "it's a picture.svg"
    succeed("histogram", "--sizes", sizes_file, "--plot", picture, "--limit", "edges=500", *axes)
    text = "".join(xml.etree.ElementTree.parse(picture).getroot().itertext())
    assert "limit 500" in text
    assert "1,000 graphs" in text


def test_a_running_server_serves_all_commands(
    sizes_file: pathlib.Path, histogram_file: pathlib.Path, server: str
) -> None:
    succeed("pack", "--sizes", sizes_file, "--limit", "nodes=100", "--server", server)
    succeed("plan", "--sizes", histogram_file, "--limit", "nodes=100", "--server", server)


def test_the_own_server_leaves_no_files(sizes_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    succeed("histogram", "--sizes", sizes_file, TMPDIR=str(temporary))
    assert not list(temporary.iterdir())


def test_the_own_server_is_found_or_missed_by_name(histogram_file: pathlib.Path) -> None:
    for program, says in [("/nonexistent", "no program"), ("/bin/false", "ended before")]:
        result = run("plan", "--sizes", histogram_file, "--limit", "nodes=100", PACKHOUSED=program)
        assert result.returncode == 1
        assert says in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "subcommand"),
        (("plna",), 2, "packhouse: there is no command 'plna'; did you mean 'plan'?\n"),
        (("datasets", "lst"), 2, "did you mean 'datasets list'?"),
        (("frobnicate",), 2, "there is no command 'frobnicate'; there are plan, tune, pack, "),
        (("plan", "--size", "FILE"), 2, "there is no option '--size'; did you mean '--sizes'?"),
        (("plan",), 2, "--sizes"),
        (("plan", "--sizes", "FILE"), 2, "--limit"),
        (("plan", "--sizes", "FILE", "--limit", "nodes"), 2, "--limit 'nodes': must be"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=-1"), 2, "--limit 'nodes=-1': must be"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=0"), 2, "at least 1"),
        (("plan", "--sizes", "FILE", "--limit", "=5"), 2, "the components are nodes, edges"),
        (("plan", "--sizes", "FILE", "--limit", "faces=5"), 2, "the components are nodes, edges"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=5", "--limit", "nodes=6"), 2, "already"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=100", "--heuristic", "x"), 2, "'x': must"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=100", "--heuristic", "best-fit:x"), 2,
         "'x' is none of product"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=99", "--padding", "much"), 2, "--padding"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=99", "--index-into", "nodes"), 2,
         "--padding graph"),
        (("plan", "--sizes", "FILE", "--limit", "nodes=99", "--padding", "graph", "--index-into",
          "faces"), 2, "there is only nodes, edges"),
        (("tune", "--sizes", "FILE", "--max", "nodes=99", "--padding", "masked"), 1,
         "padding needs max_rows of component 'edges'"),
        (("plan", "--receipt", "r"), 2, "--server: needed with --receipt"),
        (("plan", "--receipt", "r", "--dataset", "d"), 2, "--server: needed with --receipt"),
        (("batch", "--job", "j", "--epoch", "-1", "--number", "0", "--server", "s"), 2,
         "--epoch: '-1' must be a whole number from 0 to 18446744073709551615"),
        (("batch", "--job", "j", "--epoch", "0", "--number", "1" + 20 * "0", "--server", "s"), 2,
         "--number: '100000000000000000000' must be"),
        (("plan", "--sizes", "/nonexistent", "--limit", "nodes=5"), 1, "/nonexistent: cannot open"),
        (("pack", "--sizes", "FILE", "--limit", "nodes=5", "--padding", "much"), 2, "--padding"),
        (("histogram",), 2, "one of --sizes, --name and --dataset"),
        (("histogram", "--name", "x"), 2, "--server"),
        (("histogram", "--dataset", "x"), 2, "--server"),
        (("histogram", "--sizes", "FILE", "--plot", "a.gif"), 2, ".svg or .png"),
        (("histogram", "--sizes", "FILE", "--limit", "nodes=5"), 2, "--plot"),
    ],
)
def test_misuse_and_failure_are_told_apart(
    histogram_file: pathlib.Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    result = run(*(str(histogram_file) if word == "FILE" else word for word in arguments))
    assert (result.returncode, says in result.stderr) == (code, True), result.stderr


def test_help_and_version_succeed() -> None:
    assert "pack" in succeed("--help")
    assert "--limit" in succeed("plan", "--help")
    assert succeed("--version").startswith("packhouse ")


@needs_data
def test_the_molhiv_plan_is_the_published_one() -> None:
    plan = json.loads(succeed("plan", "--sizes", SHARED / "hist/molhiv_train.csv", "--limit",
                              "nodes=222", "--limit", "edges=502", "--limit", "graphs=256",
                              "--compare", "all", "--json"))
    components = {c["component"]: c["efficiency"] for c in plan["best"]["components"]}
    assert round(100 * components["nodes"], 2) >= 98.78
    notebook = {
        tuple(f"{100 * c['efficiency_of_fullest']:.2f}" for c in summary["components"][:2])
        for summary in plan["summaries"] if summary["section"] == "notebook"}
    assert {("95.56", "90.50"), ("97.52", "92.37"), ("98.50", "93.29"),
            ("98.78", "93.56")} <= notebook


@needs_data
def test_a_real_stream_packs_tighter_than_next_fit(tmp_path: pathlib.Path) -> None:
    output = succeed("pack", "--sizes", SHARED / "sizes/molhiv_train.csv.gz", "--limit",
                     "nodes=222", "--limit", "edges=502", "--output", tmp_path / "a.csv")
    assert len(read_assignment(tmp_path / "a.csv")) == 32901
    assert int(cells(output, "packhouse")[2]) < int(cells(output, "next-fit, in this order")[2])
