"""How a client knows its server, and shows who it is: certificates and tokens."""

from __future__ import annotations

import os
import pathlib
import threading
from typing import Any, Final, Mapping, NamedTuple

import grpc

from packhouse.base.arguments import names_arguments

# Of each field: its variable. In a file its name stands without PACKHOUSE_, in lower case.
_VARIABLES: Final = {
    "tls": "PACKHOUSE_TLS",
    "tls_ca": "PACKHOUSE_TLS_CA",
    "tls_cert": "PACKHOUSE_TLS_CERT",
    "tls_key": "PACKHOUSE_TLS_KEY",
    "tls_server_name": "PACKHOUSE_TLS_SERVER_NAME",
    "token": "PACKHOUSE_TOKEN",
    "token_file": "PACKHOUSE_TOKEN_FILE",
}
_CONFIG: Final = "PACKHOUSE_CONFIG"
_TRUE: Final = ("1", "true", "yes")
_FALSE: Final = ("", "0", "false", "no")
_BLANKS: Final = " \t\r\n\v\f"


@names_arguments
class Credentials(NamedTuple):
    """What makes a connection secure; can be sent to another process. Empty fields: none.

    - `tls`: encrypts, and trusts the CAs of the system. Any other field means TLS too.
    - `tls_ca`: a PEM file of the CAs that may sign the server's certificate, instead of the system's.
    - `tls_cert`, `tls_key`: PEM files of the client's certificate, for a server that asks for one.
    - `tls_server_name`: the name in the server's certificate, if it is not that of the address.
    - `token`: a bearer token that each call shows: printable ASCII without blanks, but for those
      around it.
    - `token_file`: a file that has it, read again for each call: tokens of Kubernetes are renewed
      there. Not both.

    These fields are all that there is: what is made here does not ask the environment. Where it
    should say what is left open, as for the commands, use `from_environment(tls_ca=...)`.

    Files of certificates are read when a connection is made; make a new one after a renewal.
    """

    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_server_name: str = ""
    token: str = ""
    token_file: str = ""

    def __repr__(self) -> str:
        """Without the token."""
        shown = self._replace(token="..." if self.token else "")
        fields = ", ".join(f"{name}={value!r}" for name, value in shown._asdict().items() if value)
        return f"Credentials({fields})"

    @property
    def is_plain(self) -> bool:
        """Whether the connection is not encrypted."""
        return not any(self)

    @staticmethod
    def from_environment(
        environment: Mapping[str, str] | None = None, **fields: Any
    ) -> Credentials:
        """The credentials of the variables PACKHOUSE_TLS, PACKHOUSE_TLS_CA, PACKHOUSE_TLS_CERT,
        PACKHOUSE_TLS_KEY, PACKHOUSE_TLS_SERVER_NAME, PACKHOUSE_TOKEN and PACKHOUSE_TOKEN_FILE.

        What they do not say, the file says that PACKHOUSE_CONFIG names, or else
        `~/.config/packhouse/client.conf` if there is one: lines such as `tls_ca = /etc/ca.crt`; a `#`
        begins a comment. `fields` go before both; of tokens and files of tokens, the one that is
        said first replaces the other. Raises ValueError naming the variable, or the line, that makes
        no sense; no message shows a token. TypeError for a field that there is not.
        """
        environment = os.environ if environment is None else environment
        texts, where = _from_file(environment)
        for name, variable in _VARIABLES.items():
            if variable in environment:
                texts[name] = environment[variable]
                where.pop(name, None)
                if name in ("token", "token_file"):
                    other = "token_file" if name == "token" else "token"
                    if _VARIABLES[other] not in environment:
                        texts.pop(other, None)
        tls = texts.pop("tls", "").lower()
        if tls not in (*_TRUE, *_FALSE):
            raise ValueError(f"{_VARIABLES['tls']}: {tls!r} is neither 1 nor 0")
        if "token" in texts:
            texts["token"] = _token_of(texts["token"], where.get("token", _VARIABLES["token"]))
        found = Credentials(tls=tls in _TRUE, **texts)
        for name, other in (("token", "token_file"), ("token_file", "token")):
            if fields.get(name) and not fields.get(other):
                replaced: dict[str, Any] = {other: ""}
                found = found._replace(**replaced)
        try:
            return found._replace(**fields)
        except ValueError as error:
            raise TypeError(f"Credentials: {error}") from None

    def to_grpc(self) -> grpc.ChannelCredentials:
        """gRPC's own. Raises ValueError if fields do not fit together, OSError naming a file."""
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key: one needs the other")
        if self.token and self.token_file:
            raise ValueError("token and token_file: only one may be given")
        if (self.token or self.token_file) and not (self.tls or self.tls_ca or self.tls_cert):
            raise ValueError(
                "a token is sent over TLS only: give tls_ca, the CA of the server's certificate, or "
                "tls=True for those of the system"
            )
        channel = grpc.ssl_channel_credentials(
            *(_bytes_of(name, getattr(self, name)) for name in ("tls_ca", "tls_key", "tls_cert"))
        )
        if not (self.token or self.token_file):
            return channel
        token = _read_token(self.token_file) if self.token_file else _token_of(self.token, "token")
        return grpc.composite_channel_credentials(
            channel,
            grpc.metadata_call_credentials(_TokenPlugin(token, self.token_file), "packhouse"),
        )


class _TokenPlugin(grpc.AuthMetadataPlugin):  # type: ignore[misc]
    """Gives each call its token; gRPC calls it from any thread."""

    def __init__(self, token: str, path: str) -> None:
        self._token = token
        self._path = path
        self._lock = threading.Lock()

    def __call__(self, _context: Any, callback: Any) -> None:
        try:
            with self._lock:
                token = _read_token(self._path) if self._path else self._token
            callback((("authorization", f"Bearer {token}"),), None)
        except (OSError, ValueError) as error:
            callback((), error)


def _read_token(path: str) -> str:
    # Whatever its bytes are: an error names the line that has a wrong one.
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    token = _token_of(text, f"token_file: {path!r}")
    if not token:
        raise ValueError(f"token_file: {path!r} is empty")
    return token


def _token_of(text: str, where: str) -> str:
    """The token in a text, without blanks and line ends around it, and a byte order mark.

    gRPC writes a header that it cannot send to the standard error stream: such a token does not get
    there. Raises ValueError that names the line, and does not show it.
    """
    begin = len(text) - len(text.removeprefix("\ufeff").lstrip(_BLANKS))
    token = text[begin:].rstrip(_BLANKS)
    for place, letter in enumerate(token, begin):
        if "!" <= letter <= "~":
            continue
        line = 1 + text.count("\n", 0, place)
        if letter in _BLANKS:
            raise ValueError(f"{where}: line {line}: more follows the token; there must be one only")
        raise ValueError(f"{where}: line {line}: a token has a letter that is no printable ASCII")
    return token


def _bytes_of(field: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise OSError(error.errno, f"{field}: cannot read it: {error.strerror}", path) from None


def _from_file(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What the file says, and where each field stands in it."""
    named = environment.get(_CONFIG)
    if named is not None and not named:
        return {}, {}
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(
        environment.get("HOME", "/nonexistent"), ".config"
    )
    path = pathlib.Path(named or os.path.join(folder, "packhouse", "client.conf"))
    if not named and not path.is_file():
        return {}, {}
    texts: dict[str, str] = {}
    places: dict[str, str] = {}
    # As editors on Windows write it, too: with a byte order mark, and \r at line ends.
    for number, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            line = raw.decode().strip(_BLANKS)
        except UnicodeDecodeError:
            raise ValueError(f"{path}: line {number}: is not in UTF-8") from None
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        if not equals or name not in _VARIABLES:
            known = ", ".join(_VARIABLES)
            raise ValueError(f"{path}: line {number}: no NAME = VALUE with a name of {known}")
        if name in texts:
            raise ValueError(f"{path}: line {number}: {name} is there twice")
        texts[name] = value
        places[name] = f"{path}: line {number}: {name}"
    return texts, places
