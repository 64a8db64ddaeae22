"""The soak of slow readers, small: it holds, and notices when it does not."""

from __future__ import annotations

import os

import memory_soak
import pytest

pytestmark = pytest.mark.skipif(
    "PACKHOUSED" not in os.environ or "PACKHOUSE_SANITIZE" in os.environ,
    reason="PACKHOUSED does not name a server, or sanitizers keep freed memory for a while",
)


@pytest.mark.parametrize("batch_kib", [16, 256])
def test_slow_readers_stay_under_the_budget(
    batch_kib: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = memory_soak.parse(
        [
            *("--streams", "8", "--minutes", "0", "--round-seconds", "0.001"),
            *("--batch-kib", str(batch_kib), "--budget", "96"),
            *("--server-flags", "--max-message-bytes 8388608 --max-streams 64"),
        ]
    )
    assert memory_soak.run(options) == 0, capsys.readouterr().err
    assert "budget 96 MiB" in capsys.readouterr().out


def test_what_is_above_the_budget_or_creeps_is_a_fault() -> None:
    mib = memory_soak.MIB
    memory = memory_soak.Memory(1, 0, [99 * mib, 100 * mib, 109 * mib, 104 * mib])
    assert not memory.faults(100 * mib)
    memory.anonymous[2] = 111 * mib
    assert len(memory.faults(100 * mib)) == 1
    memory.anonymous[:] = [80 * mib, 100 * mib, 90 * mib, 90 * mib]
    assert "in the last" in memory.faults(100 * mib)[0]
