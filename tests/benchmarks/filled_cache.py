"""`Load` from a filled cache of an S3 store beside `Load` of the embedded mode.

    filled_cache.py --packhoused BINARY --bench BINARY [--data FILE.npz] [--pairs 5] [--seconds 1]

Needs etcd, and an S3 server that PACKHOUSE_S3_SERVER names (tests/objects/install_s3_server.sh).
Runs `packhouse-bench --only load` in turn with a server that has its data sets in a folder and with
one that has them in S3 and its ledger in etcd: real servers on loopback. That one's cache is full
before the first batch, since opening an epoch fetches what is missing. Everything else counts for
both: the opening of epochs, acknowledgements in the ledger. The ratio of the bytes a second is what
matters, 0.9 at least; each is of two runs beside each other. Exits with status 1 if the median of a
size of batches misses it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Final

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
# pylint: disable=wrong-import-position
from etcd_process import EtcdProcess, free_port
from s3_process import BUCKET, S3Process

_NEEDED: Final = 0.9
_ROWS: Final = ("load", "loader")

# Of each size of batches and each row.
Figures = dict[tuple[int, str], dict[str, Any]]


def wrapper(
    folder: pathlib.Path, packhoused: str, s3: S3Process, etcd: EtcdProcess, number: int
) -> pathlib.Path:
    """A program that starts packhoused as the benchmark wants it, but for its stores."""
    address = f"127.0.0.1:{free_port()}"
    flags = (
        f"--store=s3://{BUCKET}/filled{number}",
        f"--s3-endpoint={s3.endpoint}",
        f"--s3-credentials={s3.credentials}",
        f"--cache-dir={folder / f'cache{number}'}",
        f"--ledger=etcd://{etcd.address}/filled{number}",
        f"--listen={address}",
        f"--advertise={address}",
        f"--signing-key={folder / 'key'}",
    )
    program = folder / f"packhoused{number}"
    program.write_text(
        "#!/bin/bash\n"
        "arguments=()\n"
        "while (($#)); do\n"
        '  case "$1" in\n'
        "    --data-dir | --listen) shift ;;\n"
        '    *) arguments+=("$1") ;;\n'
        "  esac\n"
        "  shift\n"
        "done\n"
        f'exec {shlex.quote(packhoused)} "${{arguments[@]}}" {shlex.join(flags)}\n',
        encoding="ascii",
    )
    program.chmod(0o755)
    return program


def run(options: argparse.Namespace, packhoused: str, file: pathlib.Path) -> Figures:
    """One run of the benchmark."""
    command = [options.bench, "--packhoused", packhoused, "--only", "load", "--runs", "3"]
    command += ["--payloads", options.payloads, "--streams", "1"]
    command += ["--seconds", str(options.seconds), "--json", str(file)]
    if options.data:
        command += ["--data", options.data]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    measures = json.loads(file.read_text(encoding="utf-8"))["measures"]
    return {
        (row["payload_bytes"], row["measure"]): row for row in measures if row["measure"] in _ROWS
    }


def figure(rows: list[dict[str, Any]], name: str) -> list[float]:
    """Of each run."""
    return [row[name]["median"] for row in rows]


def main() -> int:
    """Prints a row for each size of batches and each client."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", required=True)
    parser.add_argument("--bench", required=True, help="packhouse-bench")
    parser.add_argument("--data", help="graphs; default: made ones")
    parser.add_argument("--payloads", default="256KiB,1MiB")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    options = parser.parse_args()
    pairs: list[tuple[Figures, Figures]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "key").write_text("5a" * 32, encoding="ascii")
        (folder / "key").chmod(0o600)
        with S3Process(folder / "s3") as s3, EtcdProcess(folder / "etcd", compacting=False) as etcd:
            for number in range(options.pairs):
                shared = str(wrapper(folder, options.packhoused, s3, etcd, number))
                # Whichever goes first has the other's disturbances behind it in the next pair.
                both = {
                    program: run(options, program, folder / "figures.json")
                    for program in sorted((options.packhoused, shared), reverse=number % 2 == 1)
                }
                pairs.append((both[options.packhoused], both[shared]))
    print(
        f"{'':8}{'batch':>10}{'folder GB/s':>13}{'cache GB/s':>13}{'ratio':>20}{'CPU ratio':>11}"
        f"{'opening ms':>16}"
    )
    is_met = True
    for key in sorted(pairs[0][0]):
        folder_rows = [pair[0][key] for pair in pairs]
        cache_rows = [pair[1][key] for pair in pairs]
        rates = [figure(rows, "gigabytes_per_second") for rows in (folder_rows, cache_rows)]
        ratios = [cache / of_folder for of_folder, cache in zip(*rates, strict=True)]
        costs = [
            figure(rows, "server_cpu_seconds_per_gigabyte") for rows in (folder_rows, cache_rows)
        ]
        cost = statistics.median(cache / of_folder for of_folder, cache in zip(*costs, strict=True))
        ratio = statistics.median(ratios)
        openings = [
            statistics.median(row["opening_milliseconds"] for row in rows)
            for rows in (folder_rows, cache_rows)
        ]
        print(
            f"{key[1]:8}{key[0]:10}"
            f"{statistics.median(rates[0]):13.2f}{statistics.median(rates[1]):13.2f}"
            f"{ratio:8.2f} ({min(ratios):.2f}-{max(ratios):.2f}){cost:11.2f}"
            f"{openings[0]:10.1f} / {openings[1]:.1f}"
        )
        is_met = is_met and ratio >= _NEEDED
    print(f"the ratio is to be {_NEEDED} at least: {'met' if is_met else 'missed'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
