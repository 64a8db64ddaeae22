"""Plans of token sequences beside other packers: how full, how many documents cut, how long it takes.

    PYTHONPATH=build/release/python PACKHOUSED=build/release/service/packhoused \
        python3 tests/benchmarks/sequence_packing.py [--rows 2048 4096 8192] [--sizes NAME.csv.gz]

Documents are the definitions at the top of the modules of Python's standard library, a token each
word or sign; or the first column of --sizes. Those longer than a batch are left out for everybody.
With trl (`environments.py --program ... huggingface`) its own `pack_dataset` packs them too.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import importlib.util
import pathlib
import re
import statistics
import sys
import sysconfig
import tempfile
import time
from typing import Any, Callable, Final, Sequence

import numpy as np
import numpy.typing as npt

from packhouse import Client, Histogram, LocalServer

Lengths = npt.NDArray[np.int64]
_DEFINITION: Final = re.compile(r"^(?=def |class |async def )", re.MULTILINE)
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True)
class Packed:
    """The tokens of each batch, the documents that are in several, and seconds of planning."""

    tokens: Lengths
    num_cut: int
    seconds: float
    note: str = ""


def lengths_of_modules(most: int = 0) -> Lengths:
    """Of the definitions in the first `most` modules of the standard library (0: all), by name."""
    lengths = []
    modules = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    for module in modules[: most or None]:
        text = module.read_text(encoding="utf-8", errors="replace")
        lengths += [len(_TOKEN.findall(part)) for part in _DEFINITION.split(text)]
    return np.array([length for length in lengths if length], np.int64)


def lengths_of_file(path: pathlib.Path) -> Lengths:
    with gzip.open(path, "rt") as file:
        return np.array([int(line.partition(",")[0]) for line in file if line[0].isdigit()])


def concatenated(lengths: Lengths, rows: int) -> Packed:
    """One long text, cut where a batch is full (TRL's `wrapped`)."""
    start = time.perf_counter()
    ends = np.random.default_rng(0).permutation(lengths).cumsum()
    tokens = np.full(-(-int(ends[-1]) // rows), rows)
    tokens[-1] = ends[-1] - rows * (len(tokens) - 1)
    starts = np.concatenate([[0], ends[:-1]])
    num_cut = int(((ends - 1) // rows > starts // rows).sum())
    return Packed(tokens, num_cut, time.perf_counter() - start)


def next_fit(lengths: Lengths, rows: int) -> Packed:
    """In an order of chance; a batch is full when the next document does not fit."""
    start = time.perf_counter()
    tokens = [0]
    for length in np.random.default_rng(0).permutation(lengths).tolist():
        if tokens[-1] + length > rows:
            tokens.append(0)
        tokens[-1] += length
    return Packed(np.array(tokens), 0, time.perf_counter() - start)


def first_fit(lengths: Sequence[int], rows: int) -> Packed:
    """Each into the first batch that has room, found by a tree of the most room below."""
    start = time.perf_counter()
    leaves = 1 << max(len(lengths) - 1, 1).bit_length()
    room = [rows] * (2 * leaves)
    for length in lengths:
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < length:
                node += 1
        room[node] -= length
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    tokens = rows - np.array(room[leaves:])
    return Packed(tokens[tokens > 0], 0, time.perf_counter() - start)


def nemo_decreasing(lengths: Lengths, rows: int) -> Packed:
    return first_fit(np.sort(lengths)[::-1].tolist(), rows)


def nemo_shuffled(lengths: Lengths, rows: int) -> Packed:
    return first_fit(np.random.default_rng(0).permutation(lengths).tolist(), rows)


def trl_best_fit(lengths: Lengths, rows: int) -> Packed:
    """By trl itself, the making of its data set left out."""
    import datasets
    import pyarrow
    from trl.data_utils import pack_dataset

    datasets.disable_progress_bars()
    offsets = np.concatenate([[0], lengths.cumsum()])
    ids = pyarrow.LargeListArray.from_arrays(offsets, np.zeros(offsets[-1], np.int32))
    made = datasets.Dataset(pyarrow.table({"input_ids": ids}))
    options = {"batch_size": len(lengths), "keep_in_memory": True, "load_from_cache_file": False}
    start = time.perf_counter()
    packed = pack_dataset(made, rows, "bfd", map_kwargs=options)
    seconds = time.perf_counter() - start
    tokens = np.array([len(each) for each in packed.with_format("numpy")["input_ids"]])
    return Packed(tokens, 0, seconds)


def planned(client: Client, lengths: Lengths, rows: int) -> Packed:
    """packhouse's, from the lengths to the plan over the wire."""
    start = time.perf_counter()
    histogram = Histogram.from_sizes(lengths[:, np.newaxis], ("tokens",))
    plan = client.plan(histogram, {"tokens": rows, "graphs": len(lengths)})
    seconds = time.perf_counter() - start
    sizes = plan.tuples[:, 0].tolist()
    of_pattern = [
        sum(sizes[number] * copies for number, copies in pattern.entries)
        for pattern in plan.patterns
    ]
    tokens = np.repeat(of_pattern, [pattern.repeats for pattern in plan.patterns])
    summary = plan.best
    words = "proved optimal" if summary.optimal else f"at least {summary.lower_bound:,}"
    return Packed(tokens, 0, seconds, words)


def contestants(client: Client) -> dict[str, Callable[[Lengths, int], Packed]]:
    made: dict[str, Callable[[Lengths, int], Packed]] = {
        "concatenated and cut (TRL `wrapped`)": concatenated,
        "next fit, shuffled": next_fit,
        "first fit, shuffled (NeMo's rule)": nemo_shuffled,
        "first fit, decreasing (NeMo's rule)": nemo_decreasing,
    }
    if importlib.util.find_spec("trl") is not None:
        made["best fit, decreasing (TRL's own `bfd`)"] = trl_best_fit
    made["packhouse"] = lambda lengths, rows: planned(client, lengths, rows)
    return made


def check(packed: Packed, lengths: Lengths, rows: int) -> None:
    """Every token is in a batch, and none is beyond one. Raises ValueError."""
    if packed.tokens.sum() != lengths.sum() or packed.tokens.max() > rows:
        raise ValueError(f"{packed.tokens.sum()} tokens of {lengths.sum()} in batches of {rows}")


def table_of(client: Client, lengths: Lengths, rows: int, repetitions: int) -> list[str]:
    """In Markdown. The contestants take turns."""
    whole = lengths[lengths <= rows]
    lines = [
        f"{len(whole):,} documents of {whole.mean():.0f} tokens on average, the longest "
        f"{whole.max():,}, in batches of {rows:,}; {len(lengths) - len(whole):,} longer ones left out:",
        "",
        "| packer | batches | fill | documents cut | ms to plan |",
        "|---|---|---|---|---|",
    ]
    runs: dict[str, list[Packed]] = {}
    for _ in range(repetitions):
        for name, pack in contestants(client).items():
            packed = pack(whole, rows)
            check(packed, whole, rows)
            runs.setdefault(name, []).append(packed)
    for name, each in runs.items():
        packed = each[0]
        fill = 100 * whole.sum() / (len(packed.tokens) * rows)
        milliseconds = 1000 * statistics.median(one.seconds for one in each)
        note = f" ({packed.note})" if packed.note else ""
        lines.append(
            f"| {name} | {len(packed.tokens):,}{note} | {fill:.2f} % | {packed.num_cut:,} "
            f"| {milliseconds:,.1f} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--sizes", type=pathlib.Path, help="NAME.csv.gz: lengths in column 1")
    parser.add_argument("--modules", type=int, default=0, help="of the standard library; 0: all")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    lengths = lengths_of_file(options.sizes) if options.sizes else lengths_of_modules(options.modules)
    with tempfile.TemporaryFile() as log, LocalServer(log=log) as server:
        with Client(server.address) as client:
            for rows in options.rows:
                print("\n".join(table_of(client, lengths, rows, options.repetitions)), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
