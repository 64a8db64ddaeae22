"""Credentials from arguments, the environment and a file."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import grpc
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
    with pytest.raises(FileNotFoundError, match="tls_ca: cannot read it: .*nothing"):
        Credentials(tls_ca=str(tmp_path / "nothing")).to_grpc()
    with pytest.raises(FileNotFoundError, match="nothing"):
        Credentials(tls=True, token_file=str(tmp_path / "nothing")).to_grpc()


TOKEN = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TOKEN + "\n" + TOKEN[::-1], "line 1: more follows the token"),
        ("\n" + TOKEN + "\u00a0", "line 2: a token has a letter that is no printable ASCII"),
        (TOKEN + "\x00", "line 1: a token has a letter"),
        (TOKEN + "\x7f", "line 1: a token has a letter"),
        (TOKEN + " x", "line 1: more follows"),
    ],
)
def test_a_token_that_no_header_carries_is_named_and_not_shown(
    tmp_path: pathlib.Path, text: str, says: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    conf = tmp_path / "client.conf"
    conf.write_text(f"tls = 1\ntoken = {TOKEN}\u00a0\n", encoding="utf-8")
    ways = {
        f"token_file: '{file}': {says}": Credentials(tls=True, token_file=str(file)).to_grpc,
        f"token: {says}": Credentials(tls=True, token=text).to_grpc,
        f"PACKHOUSE_TOKEN: {says}": lambda: Credentials.from_environment({"PACKHOUSE_TOKEN": text}),
        f"{conf}: line 2: token: line 1: a token has": lambda: Credentials.from_environment(
            {"PACKHOUSE_CONFIG": str(conf)}
        ),
    }
    for message, way in ways.items():
        with pytest.raises(ValueError) as error:
            way()
        assert message in str(error.value)
        assert TOKEN not in str(error.value)


def test_a_token_may_have_blanks_and_a_mark_around_it(tmp_path: pathlib.Path) -> None:
    for text in (TOKEN, TOKEN + "\n", "\ufeff" + TOKEN + "\r\n", f" {TOKEN}\t"):
        file = tmp_path / "token"
        file.write_text(text, encoding="utf-8")
        Credentials(tls=True, token_file=str(file)).to_grpc()
        Credentials(tls=True, token=text).to_grpc()
        assert Credentials.from_environment({"PACKHOUSE_TOKEN": text}).token == TOKEN


def test_a_file_from_windows_says_the_same(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.conf"
    file.write_bytes("\ufeff# ours\r\ntls_ca = C:\\ca.crt\r\n\r\ntoken = abc \r\n".encode())
    found = Credentials.from_environment({"PACKHOUSE_CONFIG": str(file)})
    assert found == Credentials(tls_ca="C:\\ca.crt", token="abc")
    file.write_bytes("tls = 1\ntls_ca = /caf\xe9\n".encode("latin-1"))
    with pytest.raises(ValueError, match="client.conf: line 2: is not in UTF-8"):
        Credentials.from_environment({"PACKHOUSE_CONFIG": str(file)})


def test_fields_go_before_the_environment() -> None:
    environment = {"PACKHOUSE_TOKEN": "a", "PACKHOUSE_TLS_CA": "/ca"}
    from_environment = Credentials.from_environment
    assert from_environment(environment, tls_ca="/mine") == Credentials(tls_ca="/mine", token="a")
    assert from_environment(environment, token_file="/t") == Credentials(
        tls_ca="/ca", token_file="/t"
    )
    with pytest.raises(TypeError, match="tls_cas"):
        from_environment(environment, tls_cas="/ca")
    # Alone they are all that there is.
    assert Credentials(tls_ca="/mine").token == ""
    assert from_environment({"PACKHOUSE_TOKEN_FILE": "/f"}, token="b") == Credentials(token="b")


def test_nothing_is_said_of_what_is_empty_or_secret() -> None:
    assert repr(Credentials()) == "Credentials()" and Credentials().is_plain
    shown = Credentials(tls=True, tls_ca="/ca", token="secret")
    assert repr(shown) == "Credentials(tls=True, tls_ca='/ca', token='...')"
    assert not shown.is_plain


def test_what_grpc_gets_is_what_the_files_have(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ca", "key", "cert", "token"):
        (tmp_path / name).write_bytes(name.encode())
    monkeypatch.setattr(grpc, "ssl_channel_credentials", lambda *of: of)
    monkeypatch.setattr(grpc, "metadata_call_credentials", lambda *of: of)
    monkeypatch.setattr(grpc, "composite_channel_credentials", lambda *of: of)
    files = {f"tls_{name}": str(tmp_path / name) for name in ("ca", "key", "cert")}
    assert Credentials(**files).to_grpc() == (b"ca", b"key", b"cert")
    assert Credentials(tls=True).to_grpc() == (None, None, None)

    def told(credentials: Credentials) -> Any:
        channel, (plugin, name) = credentials.to_grpc()  # type: ignore[misc]
        assert (channel, name) == ((None, None, None), "packhouse")

        def tell() -> Any:
            heard: list[Any] = []
            plugin(None, lambda *of: heard.append(of))
            (answer,) = heard
            return answer

        return tell

    tell = told(Credentials(tls=True, token=" abc "))
    assert tell() == ((("authorization", "Bearer abc"),), None)
    # A file is read again for each call.
    tell = told(Credentials(tls=True, token_file=str(tmp_path / "token")))
    assert tell() == ((("authorization", "Bearer token"),), None)
    (tmp_path / "token").write_bytes(b"new")
    assert tell() == ((("authorization", "Bearer new"),), None)
    (tmp_path / "token").unlink()
    metadata, error = tell()
    assert metadata == () and isinstance(error, FileNotFoundError)
    (tmp_path / "token").write_bytes(b"\n")
    assert isinstance(tell()[1], ValueError)
    with pytest.raises(ValueError, match="^token_file: '.*token' is empty$"):
        Credentials(tls=True, token_file=str(tmp_path / "token")).to_grpc()
