"""Certificates as operators make them, by the openssl command."""

from __future__ import annotations

import datetime
import hashlib
import os
import pathlib
import subprocess
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
    time = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return time.strftime("%Y%m%d%H%M%SZ")


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
