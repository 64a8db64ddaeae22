"""Credentials from arguments, the environment and a file."""

from __future__ import annotations

import pathlib
import pickle

import pytest

from packhouse import Credentials


def test_the_environment_goes_before_the_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text("# ours\ntls_ca = /file/ca\n\ntoken_file=/file/token\n", encoding="ascii")
    environment = {"PACKHOUSE_CONFIG": str(file), "PACKHOUSE_TLS_CA": "/environment/ca"}
    assert Credentials.from_environment(environment) == Credentials(
        tls_ca="/environment/ca", token_file="/file/token"
    )
    # A token replaces a file of tokens.
    environment["PACKHOUSE_TOKEN"] = "secret"
    found = Credentials.from_environment(environment)
    assert found == Credentials(tls_ca="/environment/ca", token="secret")
    assert "secret" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_file_at_home_is_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".config" / "packhouse").mkdir(parents=True)
    file = tmp_path / ".config" / "packhouse" / "client.conf"
    file.write_text("tls = yes\n", encoding="ascii")
    home = {"HOME": str(tmp_path)}
    assert Credentials.from_environment(home) == Credentials(tls=True)
    assert Credentials.from_environment({**home, "PACKHOUSE_CONFIG": ""}).is_plain
    assert Credentials.from_environment({**home, "PACKHOUSE_TLS": "0"}).is_plain
    assert Credentials.from_environment({}).is_plain


@pytest.mark.parametrize(
    ("text", "line"),
    [("tls_ca", "line 1"), ("\nca = x", "line 2"), ("tls_ca = a\ntls_ca = b", "line 2: tls_ca is")],
)
def test_lines_that_make_no_sense_are_named(tmp_path: pathlib.Path, text: str, line: str) -> None:
    file = tmp_path / "client.conf"
    file.write_text(text, encoding="ascii")
    with pytest.raises(ValueError, match=line):
        Credentials.from_environment({"PACKHOUSE_CONFIG": str(file)})


def test_fields_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="PACKHOUSE_TLS"):
        Credentials.from_environment({"PACKHOUSE_TLS": "maybe"})
    with pytest.raises(ValueError, match="one needs the other"):
        Credentials(tls_cert="/x").to_grpc()
    with pytest.raises(ValueError, match="only one"):
        Credentials(tls=True, token="a", token_file="/x").to_grpc()
    with pytest.raises(ValueError, match="over TLS only"):
        Credentials(token="a").to_grpc()
    with pytest.raises(FileNotFoundError, match="nothing"):
        Credentials(tls_ca=str(tmp_path / "nothing")).to_grpc()
    with pytest.raises(FileNotFoundError, match="nothing"):
        Credentials(tls=True, token_file=str(tmp_path / "nothing")).to_grpc()
