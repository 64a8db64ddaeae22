"""What etcd may do, and operators: a server of a cluster says what is wrong."""

from __future__ import annotations

import os
import pathlib

import pytest

from certificates import Authority
from etcd_process import EtcdProcess
from shared_datasets_test import started


@pytest.mark.parametrize(
    ("has_tls", "arguments", "wanted"),
    [
        (True, ("--ledger-ca={other}",), "certificate is not signed by"),
        (False, ("--ledger-ca={right}",), "speaks plain text"),
        (True, (), "may want TLS"),
    ],
)
def test_what_is_wrong_with_tls_is_told(
    tmp_path: pathlib.Path, has_tls: bool, arguments: tuple[str, ...], wanted: str
) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    right, other = Authority(tmp_path / "right"), Authority(tmp_path / "other")
    certificate = right.sign("etcd", "DNS:localhost", "IP:127.0.0.1")
    folder = tmp_path / "etcd"
    etcd = EtcdProcess(folder, compacting=False)
    with etcd:
        address = etcd.address
        if has_tls:
            etcd.kill(0)
            etcd.serve_tls(certificate.certificate, certificate.key)
            address = etcd.address
        done = started(
            f"--ledger=etcd://{address}/test",
            *(
                each.format(right=right.certificate, other=other.certificate)
                for each in arguments
            ),
            *("--advertise=127.0.0.1:1", f"--signing-key={tmp_path / 'key'}"),
            f"--data-dir={tmp_path / 'data'}",
        )
    assert done.returncode == 1
    assert wanted in done.stderr, done.stderr
