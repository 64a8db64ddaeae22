"""Certificates and tokens as operators make them, by the openssl command."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import time
from typing import NamedTuple, Sequence

_CONFIG = """
[ca]
default_ca = this
[this]
database = {folder}/index
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


class Certificate(NamedTuple):
    """Paths of PEM files."""

    certificate: pathlib.Path
    key: pathlib.Path

    def read(self) -> tuple[bytes, bytes]:
        """The certificate and the key."""
        return self.certificate.read_bytes(), self.key.read_bytes()


class Authority:
    """A CA with a folder of its own, which signs for any time."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.certificate = folder / "ca.crt"
        (folder / "index").touch()
        (folder / "config").write_text(_CONFIG.format(folder=folder), encoding="ascii")
        _openssl(
            *("req", "-x509", *_new_key(), "-subj", "/CN=test CA", "-days", "10"),
            *("-keyout", str(folder / "ca.key"), "-out", str(self.certificate)),
        )

    def sign(
        self,
        name: str,
        *alternative_names: str,
        begins_in_hours: int = -48,
        ends_in_hours: int = 24,
        also: Sequence[str] = (),
    ) -> Certificate:
        """A certificate for `alternative_names`, such as "DNS:localhost", from two days ago on.

        `also`: further extensions, such as "extendedKeyUsage=clientAuth".
        """
        request = self._folder / f"{name}.csr"
        made = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        extensions = list(also)
        if alternative_names:
            extensions.append(f"subjectAltName={','.join(alternative_names)}")
        _openssl(
            *("req", *_new_key(), "-subj", f"/CN={name}"),
            *(word for extension in extensions for word in ("-addext", extension)),
            *("-keyout", str(made.key), "-out", str(request)),
        )
        _openssl(
            *("ca", "-batch", "-notext", "-config", str(self._folder / "config")),
            *("-cert", str(self.certificate), "-keyfile", str(self._folder / "ca.key")),
            *("-startdate", _date(begins_in_hours), "-enddate", _date(ends_in_hours)),
            *("-in", str(request), "-out", str(made.certificate)),
        )
        return made


class TokenIssuer:
    """Signs JWTs by an RSA key of its own, which is in the file `path`."""

    def __init__(self, path: pathlib.Path) -> None:
        self._key = str(path)
        _openssl("genrsa", "-out", self._key, "2048")

    def jwks(self) -> bytes:
        """Its keys, as `--jwt-keys` takes them."""
        told = _openssl("rsa", "-in", self._key, "-noout", "-modulus").decode().strip()
        modulus = bytes.fromhex(told.partition("=")[2])
        key = {"kty": "RSA", "alg": "RS256", "kid": "key", "n": _encoded(modulus), "e": "AQAB"}
        return json.dumps({"keys": [key]}).encode()

    def token(self, **claims: object) -> str:
        """For an hour for the audience `packhouse`, of the subject `trainer`."""
        said = {"sub": "trainer", "aud": "packhouse", "exp": int(time.time()) + 3600, **claims}
        header = {"alg": "RS256", "kid": "key", "typ": "JWT"}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (header, said))
        signature = _openssl("dgst", "-sha256", "-sign", self._key, stdin=text.encode())
        return f"{text}.{_encoded(signature)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def hash_of(token: str) -> str:
    """As it stands in a token file."""
    return hashlib.sha256(token.encode()).hexdigest()


def replace(path: pathlib.Path, content: bytes) -> None:
    """As tools that renew files do it: nobody sees half a file."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def _new_key() -> tuple[str, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _date(hours: int) -> str:
    then = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return then.strftime("%Y%m%d%H%M%SZ")


def _openssl(*arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *arguments], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
