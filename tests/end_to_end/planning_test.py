"""`packhouse plan` and `packhouse tune` as users run them: tables, JSON, pictures, exit codes."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import pty
import random
import subprocess
import xml.etree.ElementTree
from collections import Counter
from typing import Any, Iterator

import pytest
import warm_command
from server_process import ServerProcess

pytestmark = pytest.mark.skipif(
    "PACKHOUSE_CLI" not in os.environ, reason="PACKHOUSE_CLI does not name the command line"
)

Sizes = Counter[tuple[int, ...]]
PLAN = ("--limit", "nodes=100", "--limit", "edges=220")
TUNE = ("--max", "nodes=200", "--max", "edges=500")


@pytest.fixture(name="server", scope="module")
def server_fixture() -> Iterator[str]:
    """The address of a server for all commands but those that test their own."""
    with ServerProcess() as server:
        yield server.address


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(*arguments, **environment)


def succeed(*arguments: object) -> str:
    """The output of a command that has nothing to complain of."""
    result = run(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def refuse(code: int, *arguments: object) -> str:
    """The first line on stderr of a command that ends with `code` and prints nothing."""
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    return result.stderr.splitlines()[0]


def pairs() -> Sizes:
    """A thousand sizes with edges about twice the nodes; always the same ones."""
    generator = random.Random(1)
    sizes: Sizes = Counter()
    for _ in range(1000):
        nodes = generator.randint(1, 60)
        sizes[nodes, 2 * nodes + generator.randint(-1, 6)] += 1
    return sizes


def write(path: pathlib.Path, components: str, sizes: Sizes) -> pathlib.Path:
    with open(path, "w", encoding="ascii") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"num_{name}" for name in components.split()), "count"])
        writer.writerows([*size, count] for size, count in sorted(sizes.items()))
    return path


@pytest.fixture(name="sizes_file")
def sizes_file_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    return write(tmp_path / "pairs.csv", "nodes edges", pairs())


def plan_json(*arguments: object) -> dict[str, Any]:
    """The plan without the times, which differ; not compared unless asked for."""
    compare = () if "--compare" in arguments else ("--compare", "none")
    plan = json.loads(succeed("plan", *arguments, *compare, "--json"))
    for summary in [plan["best"], *plan["summaries"]]:
        summary.pop("elapsed_seconds", None)
    return plan


def rows(component: int) -> int:
    return sum(size[component] * count for size, count in pairs().items())


# --- plan


def test_the_certificate_comes_first_and_says_what_the_json_says(
    sizes_file: pathlib.Path, server: str
) -> None:
    arguments = ("--sizes", sizes_file, *PLAN, "--server", server)
    best = plan_json(*arguments)["best"]
    lines = succeed("plan", *arguments).splitlines()
    assert lines[0] == "1,000 graphs of 415 sizes in pairs; limits nodes=100, edges=220"
    packs = f"packs        {best['packs']:,}, "
    assert lines[2].startswith(packs + ("proved optimal" if best["optimal"] else "at most "))
    assert lines[3] == f"lower bound  {best['lower_bound']:,}, by {best['lower_bound_name']}"
    efficiency = {c["component"]: c["efficiency"] for c in best["components"]}
    assert efficiency["nodes"] == pytest.approx(rows(0) / (100 * best["packs"]))
    assert efficiency["edges"] == pytest.approx(rows(1) / (220 * best["packs"]))
    assert lines[4] == (
        f"efficiency   nodes {100 * efficiency['nodes']:.3f} %, "
        f"edges {100 * efficiency['edges']:.3f} %"
    )
    assert lines[5].startswith(f"found by     {best['winner']}, ")
    assert lines[6] == f"receipt      {best['receipt']}"
    assert best["optimal"] == (best["packs"] == best["lower_bound"])


def test_all_planners_are_compared_and_the_optimized_is_none_the_worse(
    sizes_file: pathlib.Path, server: str
) -> None:
    plan = plan_json("--sizes", sizes_file, *PLAN, "--server", server, "--compare", "all")
    assert [summary["name"] for summary in plan["summaries"]][:2] == [
        "optimized",
        "first-fit decreasing",
    ]
    fitting = [s["packs"] for s in plan["summaries"] if s["keeps_limits"] and not s["unfinished"]]
    assert len(fitting) > 20
    assert plan["summaries"][0]["packs"] == plan["best"]["packs"] == min(fitting)
    few = plan_json(
        *("--sizes", sizes_file, *PLAN, "--server", server),
        *("--no-tuple-packing", "--no-notebook", "--no-baselines"),
    )
    assert [summary["name"] for summary in few["summaries"]] == ["optimized"]
    assert few["best"] == plan["best"]
    none = plan_json("--sizes", sizes_file, *PLAN, "--server", server, "--compare", "none")
    assert none == few
    # The rows come one by one, and are the same.
    text = succeed("plan", "--sizes", sizes_file, *PLAN, "--server", server, "--compare", "all")
    table = text[text.index("* optimized"):].splitlines()
    rows_ = {line[2:].rsplit(maxsplit=7)[0].strip(): line.split()[-7] for line in table[:-1]
             if line[:2] in ("* ", "  ")}
    assert rows_ == {s["name"]: str(s["packs"]) for s in plan["summaries"]}
    assert table[-1] == "* the fewest packs"


def test_the_plan_does_not_wait_for_the_comparison(server: str, tmp_path: pathlib.Path) -> None:
    """Without time for the comparison, the plan is printed all the same, and the rest is named."""
    path = write(tmp_path / "sizes.csv", "nodes edges", pairs())
    arguments = ("--sizes", path, *PLAN, "--server", server, "--compare-seconds", 0)
    output = succeed("plan", *arguments)
    assert output.splitlines()[2].startswith("packs ")
    assert output.splitlines()[-1].startswith("unfinished: first-fit decreasing, ")
    assert output.endswith("notebook nodes, notebook edges; --compare all waits for them\n")
    assert "unfinished" not in succeed("plan", *arguments, "--compare", "all")


def test_named_heuristics_are_tried_alone(sizes_file: pathlib.Path, server: str) -> None:
    plan = plan_json(
        *("--sizes", sizes_file, *PLAN, "--server", server),
        *("--heuristic", "first-fit-decreasing", "--heuristic", "optimized", "--seed", 3),
    )
    assert [s["name"] for s in plan["summaries"]] == ["first-fit decreasing", "optimized"]


def test_a_receipt_makes_its_plan_again(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    patterns = ("--patterns", 1000000, "--server", server)
    made = plan_json(
        *("--sizes", sizes_file, *PLAN, "--seed", 3, "--budget-steps", 123456, "--compare", "none"),
        *patterns,
    )
    receipt = made["best"]["receipt"]
    assert plan_json("--receipt", receipt, "--sizes", sizes_file, *patterns) == made
    text = succeed("plan", "--receipt", receipt, "--sizes", sizes_file, "--server", server)
    assert f"receipt      {receipt}\n" in text
    changed = pairs()
    changed[60, 120] += 1
    other = write(tmp_path / "other.csv", "nodes edges", changed)
    message = refuse(1, "plan", "--receipt", receipt, "--sizes", other, "--server", server)
    assert "is for other sizes" in message and message.endswith(" [FAILED_PRECONDITION]")
    message = refuse(2, "plan", "--receipt", receipt, "--sizes", other, *PLAN)
    assert message == "packhouse: --limit: not with --receipt, which says what the plan is made of"


def test_a_saved_plan_starts_a_later_one(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    saved = [tmp_path / name for name in ("a.plan", "b.plan", "c.plan")]
    arguments = ("--sizes", sizes_file, *PLAN, "--server", server)
    for path in saved[:2]:
        succeed("plan", *arguments, "--save-plan", path, "--compare", "none")
    assert saved[0].read_bytes() == saved[1].read_bytes()

    changed = pairs()
    changed[60, 120] += 7
    later = ("--sizes", write(tmp_path / "later.csv", "nodes edges", changed), *PLAN)
    plan = plan_json(
        *later, "--server", server, "--warm-start", saved[0], "--save-plan", saved[2],
        *("--patterns", 1000000),
    )
    used: Sizes = Counter()
    for pattern in plan["patterns"]:
        for graph in pattern["graphs"]:
            used[graph["nodes"], graph["edges"]] += pattern["repeats"] * graph["copies"]
    assert used == changed
    cold = plan_json(*later, "--server", server)
    assert plan["best"]["receipt"] != cold["best"]["receipt"]
    assert plan["best"]["lower_bound"] <= cold["best"]["packs"]

    other = write(tmp_path / "other.csv", "edges nodes", pairs())
    message = refuse(1, "plan", "--sizes", other, *PLAN, "--warm-start", saved[0])
    assert message == (
        f"packhouse: {saved[0]}: is a plan of nodes, edges, but the sizes have edges, nodes "
        "[INVALID_ARGUMENT]"
    )


# --- tune


def tune_json(*arguments: object) -> dict[str, Any]:
    return json.loads(succeed("tune", *arguments, "--json"))


def test_recommended_limits_are_the_devices(sizes_file: pathlib.Path, server: str) -> None:
    tuned = tune_json(
        *("--sizes", sizes_file, *TUNE, "--server", server, "--min", "nodes=70"),
        *("--multiple-of", "nodes=8", "--multiple-of", "edges=32", "--cost", "edges=0.5"),
        *("--bytes-per", "nodes=400", "--bytes-per", "edges=1KiB"),
        *("--memory", "400KiB", "--fixed-bytes", "8KiB"),
    )
    (shape,) = tuned["shapes"]
    nodes, edges = shape["capacities"]["nodes"], shape["capacities"]["edges"]
    assert 70 <= nodes <= 200 and nodes % 8 == 0
    assert edges <= 500 and edges % 32 == 0
    assert shape["batch_bytes"] == 8192 + 400 * nodes + 1024 * edges <= 400 * 1024
    assert shape["epoch_cost"] == pytest.approx(shape["packs"] * (nodes + 0.5 * edges))
    assert tuned["least_cost"] == pytest.approx(rows(0) + 0.5 * rows(1))
    assert tuned["epoch_cost"] == pytest.approx(shape["epoch_cost"])
    assert tuned["epoch_cost"] >= tuned["least_cost"]
    assert tuned["reasons"]


def test_a_component_without_a_limit_is_told(sizes_file: pathlib.Path, server: str) -> None:
    arguments = ("--sizes", sizes_file, "--server", server)
    head = succeed("plan", *arguments, "--limit", "nodes=100", "--compare", "none").splitlines()[0]
    assert head.endswith("; limits nodes=100; edges without a limit")
    head = succeed("tune", *arguments, "--max", "edges=300").splitlines()[0]
    assert head.endswith("; at most edges=300; nodes without a limit")


def test_harmonic_mean_is_an_objective(sizes_file: pathlib.Path, server: str) -> None:
    tuned = tune_json(
        "--sizes", sizes_file, *TUNE, "--server", server, "--objective", "harmonic-mean"
    )
    by_component = {c["component"]: c["efficiency"] for c in tuned["shapes"][0]["components"]}
    expected = 2 / (1 / by_component["nodes"] + 1 / by_component["edges"])
    assert tuned["harmonic_mean"] == pytest.approx(expected)
    by_cost = tune_json("--sizes", sizes_file, *TUNE, "--server", server)
    assert tuned["harmonic_mean"] >= by_cost["harmonic_mean"]


def test_progress_is_for_terminals(sizes_file: pathlib.Path, server: str) -> None:
    try:
        terminal, other_end = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminals here: {error}")
    command = [os.environ["PACKHOUSE_CLI"], "tune", "--sizes", str(sizes_file), *TUNE]
    result = subprocess.run(
        [*command, "--server", server], stdout=subprocess.PIPE, stderr=other_end, timeout=120,
        check=True,
    )
    os.close(other_end)
    shown = os.read(terminal, 1 << 20).decode()
    os.close(terminal)
    assert b"recommended" in result.stdout
    # Each line takes the place of the one before, and in the end there is none.
    assert "planned " in shown and "\n" not in shown
    assert shown.endswith("\r\x1b[K")


# --- pictures


def text_of(picture: pathlib.Path) -> str:
    return "".join(xml.etree.ElementTree.parse(picture).getroot().itertext())


def component_files(folder: pathlib.Path) -> dict[int, tuple[pathlib.Path, list[str], list[str]]]:
    """Sizes of one and three components, with the limits of a plan and of a device."""
    tokens: Sizes = Counter()
    three: Sizes = Counter()
    for (nodes, edges), count in pairs().items():
        tokens[(nodes,)] += count
        three[nodes, edges, nodes // 7] += count
    return {
        1: (write(folder / "one.csv", "tokens", tokens), ["tokens=100"], ["tokens=300"]),
        2: (
            write(folder / "two.csv", "nodes edges", pairs()),
            ["nodes=100", "edges=220", "graphs=9"],
            ["nodes=150", "edges=300"],
        ),
        3: (
            write(folder / "three.csv", "nodes edges faces", three),
            ["nodes=100", "edges=220", "faces=20"],
            ["nodes=120", "edges=250", "faces=24", "graphs=16"],
        ),
    }


@pytest.mark.parametrize("components", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_plan_draws(components: int, suffix: str, tmp_path: pathlib.Path, server: str) -> None:
    path, limits, _ = component_files(tmp_path)[components]
    picture = tmp_path / f"it's a picture.{suffix}"
    succeed(
        *("plan", "--sizes", path, "--server", server, "--plot", picture),
        *("--heuristic", "optimized"),
        *(word for limit in limits for word in ("--limit", limit)),
    )
    if suffix != "svg":
        assert picture.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[suffix])
        return
    text = text_of(picture)
    assert "1,000 graphs in " in text
    assert "fill of the packs" in text
    for limit in limits:
        component, rows_ = limit.split("=")
        assert f"{component} of {rows_}: " in text


@pytest.mark.parametrize("components", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_tune_draws(components: int, suffix: str, tmp_path: pathlib.Path, server: str) -> None:
    path, _, limits = component_files(tmp_path)[components]
    picture = tmp_path / f"picture.{suffix}"
    output = succeed(
        *("tune", "--sizes", path, "--server", server, "--plot", picture),
        *(word for limit in limits for word in ("--max", limit)),
    )
    if suffix == "png":
        assert picture.read_bytes().startswith(b"\x89PNG")
        return
    text = text_of(picture)
    assert "the recommended limits" in text
    assert "frontier: padding against the size of a batch" in text
    # One component has no grid; all that the text has is in the frontier's panel.
    assert ("efficiency of one shape over the grid of limits" in text) == (components > 1)
    (recommended,) = (line for line in output.splitlines() if line.startswith("recommended  "))
    assert "recommended: " + recommended.removeprefix("recommended  ").split(": ")[0] in text


def test_axes_choose_what_is_drawn(tmp_path: pathlib.Path, server: str) -> None:
    path, limits, most = component_files(tmp_path)[3]
    picture = tmp_path / "picture.svg"
    arguments = ("--sizes", path, "--server", server, "--plot", picture, "--axes", "faces,edges")
    succeed("plan", *arguments, *(word for limit in limits for word in ("--limit", limit)))
    assert "faces per graph" in text_of(picture)
    succeed("tune", *arguments, *(word for limit in most for word in ("--max", limit)))
    assert "limit of faces" in text_of(picture)
    assert "limit of nodes" not in text_of(picture)


def test_several_shapes_are_drawn(tmp_path: pathlib.Path, server: str) -> None:
    sizes = pairs()
    sizes[3000, 6000] = 2
    path = write(tmp_path / "tail.csv", "nodes edges", sizes)
    picture = tmp_path / "picture.svg"
    succeed("tune", "--sizes", path, "--server", server, "--max", "nodes=3072", "--max",
            "edges=8192", "--multiple-of", "nodes=64", "--multiple-of", "edges=128", "--shapes", 2,
            "--plot", picture)
    text = text_of(picture)
    assert "the recommended shapes" in text
    assert "2 shapes together" in text
    assert "1: nodes=" in text and "2: nodes=" in text


@pytest.mark.parametrize("command", [("plan", *PLAN), ("tune", *TUNE), ("histogram",)])
def test_without_matplotlib_there_is_an_error_and_no_file(
    command: tuple[str, ...], sizes_file: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    picture = tmp_path / "picture.svg"
    result = run(*command, "--sizes", sizes_file, "--server", server, "--plot", picture,
                 PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    # What was found is not lost.
    assert "000 graphs of 415 sizes in pairs" in result.stdout
    assert "without Matplotlib (Debian: python3-matplotlib" in result.stderr
    assert not picture.exists()


# --- errors


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("plan", *PLAN, "--heuristic", "best-fit:sum", "--seed", "1"), 2,
         "packhouse: --seed is for the heuristic 'optimized', which is not among those of "
         "--heuristic"),
        (("plan", *PLAN, "--heuristic", "no-packing", "--warm-start", "x"), 2,
         "packhouse: --warm-start is for the heuristic 'optimized', which is not among those of "
         "--heuristic"),
        (("plan", *PLAN, "--heuristic", "optimised"), 2,
         "packhouse: --heuristic 'optimised': must be optimized, first-fit-decreasing, "
         "[filling-]best-fit:PRIORITY, [filling-]first-fit:PRIORITY, notebook:PRIORITY, no-packing "
         "or single-component:COMPONENT"),
        (("plan", *PLAN, "--warm-start", "/nonexistent"), 1,
         "packhouse: /nonexistent: cannot open: No such file or directory [NOT_FOUND]"),
        (("plan", *PLAN, "--plot", "a.gif"), 2,
         "packhouse: --plot 'a.gif': a picture's name ends in .svg or .png, or in .pdf"),
        (("plan", *PLAN, "--plot", "a.svg", "--axes", "faces"), 2,
         "packhouse: --plot, --axes: the histogram has no component 'faces', it has nodes, edges"),
        (("plan",), 2, "packhouse: --limit is required without --receipt"),
        (("plan", *PLAN, "--dataset", "x"), 2,
         "packhouse: one of --sizes, --dataset and --histogram is needed"),
        (("plan", *PLAN, "--axes", "nodes"), 2,
         "packhouse: --axes chooses what is drawn: it needs --plot"),
        (("tune",), 2, "packhouse: --max is required"),
        (("tune", "--max", "nodes"), 2,
         "packhouse: --max 'nodes': must be COMPONENT=ROWS with a whole number of at least 1"),
        (("tune", "--max", "nodes=9", "--min", "edges=9"), 2,
         "packhouse: --min of 'edges': it has no --max, and so no capacity to choose"),
        (("tune", *TUNE, "--memory", "16 GiB"), 2,
         "packhouse: --memory '16 GiB': must be a whole number of bytes, as in 400, 64KiB or "
         "16GiB"),
        (("tune", *TUNE, "--objective", "fame"), 2,
         "packhouse: --objective: 'fame' is not one of 'epoch-cost', 'harmonic-mean'."),
        (("tune", *TUNE, "--plot", "a.jpg"), 2,
         "packhouse: --plot 'a.jpg': a picture's name ends in .svg or .png, or in .pdf"),
        (("tune", *TUNE, "--plot", "a.svg", "--axes", "nodes,edges,nodes"), 2,
         "packhouse: --plot, --axes: a picture shows one component or two, not 3 (nodes, edges, "
         "nodes)"),
    ],
)
def test_errors_name_option_value_and_bound(
    arguments: tuple[str, ...], code: int, message: str, sizes_file: pathlib.Path
) -> None:
    assert refuse(code, *arguments, "--sizes", sizes_file) == message


def test_the_servers_refusals_have_their_codes(
    sizes_file: pathlib.Path, tmp_path: pathlib.Path, server: str
) -> None:
    large = write(tmp_path / "large.csv", "nodes edges", Counter({(900, 900): 5}))
    for code, path, arguments in [
        ("FAILED_PRECONDITION", large, TUNE),
        ("INVALID_ARGUMENT", sizes_file, (*TUNE, "--shapes", "9")),
    ]:
        message = refuse(1, "tune", "--sizes", path, "--server", server, *arguments)
        assert message.startswith("packhouse: ") and message.endswith(f" [{code}]")
