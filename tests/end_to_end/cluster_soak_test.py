"""The short form of the soak of a cluster (cluster_soak.py): twenty faults; and its checker."""

from __future__ import annotations

import base64
import os
import pathlib
from typing import Final

import cluster_soak
import pytest
from cluster_history import History


def test_no_law_is_broken_whoever_is_killed_or_stopped(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    options = cluster_soak.parse(
        ["--faults", "20", "--replicas", "3", "--workers", "4", "--jobs", "2", "--graphs", "800"]
        + ["--lease", "3", "--interval", "0.8", "--quiet", "0"]
    )
    status = cluster_soak.run(options, tmp_path)
    said = capfd.readouterr()
    assert status == 0, said
    assert "20 faults" in said.out
    print(said.out)


def _cursor(*runs: int) -> str:
    """A cursor whose done batches are these runs, with a checksum and a signature of nothing."""
    message = bytes((0x0A, 0, 0x1A, len(runs), *runs)) + bytes(4)
    return base64.urlsafe_b64encode(message).decode().rstrip("=") + ".signature"


_GOOD: Final = [
    "job opened 0 0 2",
    "job batch 1.0 0 1 0 0 7 a:1 11 0,1",
    "job lost 0 1 0",
    f"job acknowledged 1.1 1.2 0 1 0 1 {_cursor(0, 1)}",
    "- fault 1.3 killed a:1",
    "job batch 4.0 0 1 1 0 9 b:1 12 2",
    "job lost 0 1 1",
    f"job acknowledged 4.1 4.2 0 1 1 1 {_cursor(0, 2)}",
]


@pytest.mark.parametrize(
    ("line", "instead", "law"),
    [
        (0, _GOOD[0], None),
        # An answer that was lost may have been the one that said so.
        (3, "job opened 1 0 2", None),
        (3, f"job acknowledged 1.1 1.2 0 1 0 0 {_cursor(0, 1)}", "batch 0 was new 0 times"),
        (2, f"job acknowledged 1.1 1.2 0 1 0 1 {_cursor(0, 1)}", "batch 0 was new 2 times"),
        (7, f"job acknowledged 4.1 4.2 0 1 1 1 {_cursor(1, 1)}", "in a later cursor: [0]"),
        (5, "job batch 4.0 0 1 1 0 9 b:1 12 1", "2 graphs, 2 times at most"),
        (5, "job batch 4.0 0 2 1 0 9 b:1 12 2", "generations [1, 2]"),
        (6, "job batch 4.0 0 1 0 0 9 b:1 13 0,1", "batch 0 came again with other bytes"),
        (1, "job opened 1 0 2", "never received: [0]"),
    ],
)
def test_the_checker_sees_what_is_wrong(line: int, instead: str, law: str | None) -> None:
    history = History([*_GOOD[:line], instead, *_GOOD[line + 1 :]])
    broken = history.check(num_graphs=3)
    if law is None:
        assert not broken
    else:
        assert any(law in each for each in broken), broken


def test_a_takeover_lasts_from_the_fault_to_the_next_owners_first_batch() -> None:
    (takeover,) = History(_GOOD).takeovers(lease_seconds=3)
    assert (takeover.kind, takeover.is_alone) == ("killed", True)
    assert takeover.seconds == pytest.approx(2.7)
