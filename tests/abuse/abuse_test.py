"""Every scenario in its short form: each law holds."""

from __future__ import annotations

import os

import abuse
import pytest

pytestmark = pytest.mark.skipif(
    "PACKHOUSED" not in os.environ or "PACKHOUSE_SANITIZE" in os.environ,
    reason="PACKHOUSED does not name a server, or sanitizers change what takes how much",
)


@pytest.mark.parametrize("name", sorted(abuse.load_scenarios()))
def test_laws_hold(name: str) -> None:
    rows = list(abuse.SCENARIOS[name](abuse.Abuse(seconds=2, is_short=True)))
    assert rows
    for row in rows:
        assert row.is_timed or row.holds, row
