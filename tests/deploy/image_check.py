"""Looks at an image that `make image` has built, and runs it: alone, and with etcd and S3 over TLS.

    python3 image_check.py build/image

Without etcd, or without the S3 server that PACKHOUSE_S3_SERVER names
(tests/objects/install_s3_server.sh), it says so, and runs it alone only.

`root/` of the folder has the image's files, `config.json` what the image says of itself. The program runs
in a chroot of its own, as the image's user, with the image's entrypoint. Needs root. Exit status 1 if
anything is not as it should be; then a line says what.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from typing import Any, Final, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
# pylint: disable=wrong-import-position
from certificates import Authority
from etcd_process import free_port

MOST_BYTES: Final = 130_000_000
# What installs, and what nobody needs: each would be something to keep up to date.
UNWANTED: Final = ("perl", "apt", "apt-get", "dpkg", "gcc", "python3")
SBOM: Final = "usr/share/sbom/packhouse.spdx.json"
# Where libcurl and gRPC look for the CAs of the world.
CAS: Final = "etc/ssl/certs/ca-certificates.crt"
LEAST_CAS: Final = 100


def packages(root: pathlib.Path) -> set[tuple[str, str]]:
    """Names and versions, as scanners read them."""
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    found = set()
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version): (.*)$", paragraph, re.MULTILINE))
        if fields:
            found.add((fields["Package"], fields["Version"]))
    return found


def size(root: pathlib.Path) -> int:
    """Bytes of all files; of a file with several names once."""
    files: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            files[status.st_dev, status.st_ino] = status.st_size
    return sum(files.values())


def check_files(root: pathlib.Path) -> None:
    """What is in it, and what is not."""
    taken = size(root)
    assert taken <= MOST_BYTES, f"{taken} bytes are more than {MOST_BYTES}"
    for name in UNWANTED:
        for folder in ("usr/bin", "usr/sbin", "usr/local/bin"):
            assert not (root / folder / name).exists(), f"/{folder}/{name} is there"
    bits = [
        path for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o6000
    ]
    assert not bits, f"set-uid programs: {bits}"

    cas = (root / CAS).read_text(encoding="ascii").count("BEGIN CERTIFICATE")
    assert cas >= LEAST_CAS, f"/{CAS} has {cas} certificates"

    bill = json.loads((root / SBOM).read_text(encoding="utf-8"))
    assert bill["spdxVersion"] == "SPDX-2.3"
    listed = {(one["name"], one["versionInfo"]) for one in bill["packages"][1:]}
    there = packages(root)
    assert listed == there, f"the bill of materials and the status differ: {listed ^ there}"
    for name, _ in there:
        licence = root / "usr/share/doc" / name
        assert licence.exists() or licence.is_symlink(), f"no licence of {name}"
    ids = [one["SPDXID"] for one in bill["packages"] + bill["files"]]
    assert len(set(ids)) == len(ids)
    print(f"{taken / 1e6:.1f} MB, {len(there)} Debian packages")


@contextlib.contextmanager
def contained(root: pathlib.Path) -> Iterator[None]:
    """What each container runtime adds: /proc, and the names of this machine."""
    hosts = root / "etc/hosts"
    hosts.write_text("127.0.0.1 localhost\n", encoding="ascii")
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(root / "proc")], check=True)
        hosts.unlink()


class Container:
    """The image's files as a root, and its user."""

    def __init__(self, root: pathlib.Path, config: dict[str, Any]) -> None:
        self.root = root
        self.entry = list(config["Entrypoint"])
        self.uid, self.gid = (int(part) for part in config["User"].split(":"))
        self._env = dict(one.split("=", 1) for one in config["Env"])

    def run(self, *command: str, **how: Any) -> subprocess.Popen[str]:
        """A process of it."""

        def enter() -> None:
            os.chroot(self.root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)

        return subprocess.Popen(
            command, preexec_fn=enter, env=self._env, text=True, stdout=subprocess.PIPE, **how
        )

    def said(self, *command: str) -> str:
        """What a command prints that must not fail."""
        done = self.run(*command)
        text, _ = done.communicate(timeout=60)
        assert done.returncode == 0, f"{command} ended with status {done.returncode}"
        return text


def check_run(container: Container) -> None:
    """It starts as its user, is healthy by its own check, plans, and ends when asked."""
    root, inside, said = container.root, container.run, container.said
    version = json.loads((root / SBOM).read_text(encoding="utf-8"))["packages"][0]["versionInfo"]
    assert said("packhoused", "--version").strip() == version
    assert "Usage" in said("packhouse-graph", "--help")
    server = inside(
        *(word.replace("0.0.0.0:50051", "127.0.0.1:0") for word in container.entry),
        *("--http-listen=127.0.0.1:0", "--insecure", "--lame-duck=0s", "--data-dir=/data"),
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        assert ready["event"] == "listening", "it does not say where it listens"
        with urllib.request.urlopen(f"http://{ready['http']}/healthz") as page:
            assert page.status == 200
        with urllib.request.urlopen(f"http://{ready['http']}/metrics") as page:
            build = re.search(r"packhouse_build_info\{(.*)\} 1", page.read().decode())
        assert build is not None and f'version="{version}"' in build[1], build
        port = ready["http"].rpartition(":")[2]
        for health in ("/healthz", "/readyz"):
            script = f"exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET {health} HTTP/1.0\\r\\n\\r\\n' >&3"
            said("bash", "-c", script + ' && read -r _ status _ <&3 && [ "$status" = 200 ]')
        # A real call through it, by a program that is in the image.
        said(
            *("packhouse-graph", "generate", "mag", "--scale=0.001", "--server", ready["grpc"]),
            *("--graph=mag", "--seal", "--quiet"),
        )
        server.terminate()
        assert server.wait(20) == 0
        # A command that works on the disk, behind the flags of the image's entry.
        checked = json.loads(said(*container.entry, "store", "check", "--json", "/data"))
        assert checked["source_graphs"] == 1 and not checked["damages"], checked
    finally:
        server.kill()
    print(f"ran as {container.uid}:{container.gid}: {build[1]}")


def why_no_cluster() -> str:
    """Why there can be none here; empty if there can be one."""
    if shutil.which("etcd") is None:
        return "there is no etcd: Debian's etcd-server"
    if not os.access(os.environ.get("PACKHOUSE_S3_SERVER", ""), os.X_OK):
        return "PACKHOUSE_S3_SERVER names no S3 server: tests/objects/install_s3_server.sh makes one"
    return ""


@contextlib.contextmanager
def started(port: int, *command: str, **environment: str) -> Iterator[None]:
    """A program on this machine that listens at a port."""
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            assert process.poll() is None, f"{command[0]} has ended"
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def known_ca(root: pathlib.Path, authority: pathlib.Path) -> Iterator[None]:
    """As if it were one of the CAs of the world."""
    file = root / CAS
    before = file.read_bytes()
    file.write_bytes(before + authority.read_bytes())
    try:
        yield
    finally:
        file.write_bytes(before)


def check_cluster(container: Container) -> None:
    """The shipped example of servers that share: etcd over TLS, and S3 by https with a known CA."""
    root = container.root
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = root / "tmp/cluster"
        shared.mkdir()
        stack.callback(shutil.rmtree, shared, ignore_errors=True)
        authority = Authority(scratch / "ca")
        signed = authority.sign("engines", "DNS:localhost", "IP:127.0.0.1")
        shutil.copy(authority.certificate, shared / "ca.crt")
        (shared / "cursors.key").write_text("ab" * 32, encoding="ascii")
        (shared / "s3").write_text(
            "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n", encoding="ascii"
        )
        for path in (shared, *shared.iterdir()):
            os.chown(path, container.uid, container.gid)
            path.chmod(0o700 if path.is_dir() else 0o600)
        etcd, peer, s3 = (free_port() for _ in range(3))
        stack.enter_context(started(
            etcd, "etcd", f"--data-dir={scratch / 'etcd'}",
            *(f"--{kind}-client-urls=https://localhost:{etcd}" for kind in ("listen", "advertise")),
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--cert-file={signed.certificate}", f"--key-file={signed.key}",
        ))
        (scratch / "buckets/graphs").mkdir(parents=True)
        (scratch / "metadata").mkdir()
        stack.enter_context(started(
            s3, os.environ["PACKHOUSE_S3_SERVER"], "--port", f"127.0.0.1:{s3}",
            "--cert", str(signed.certificate), "--key", str(signed.key), "--quiet",
            "posix", "--sidecar", str(scratch / "metadata"), str(scratch / "buckets"),
            ROOT_ACCESS_KEY="key", ROOT_SECRET_KEY="secret",
        ))
        flags = (
            *("--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--lame-duck=0s"),
            *(f"--ledger=etcd://localhost:{etcd}/image", "--advertise=127.0.0.1:1"),
            *("--ledger-ca=/tmp/cluster/ca.crt", "--signing-key=/tmp/cluster/cursors.key"),
            *("--store=s3://graphs", f"--s3-endpoint=https://localhost:{s3}"),
            *("--s3-credentials=/tmp/cluster/s3", "--cache-dir=/tmp/cluster/cache"),
        )
        with known_ca(root, authority.certificate):
            server = container.run("packhoused", *flags, stderr=subprocess.PIPE)
            try:
                assert server.stdout is not None and server.stderr is not None
                line = server.stdout.readline()
                assert line, server.stderr.read()
                address = json.loads(line)["grpc"]
                container.said(
                    *("packhouse-graph", "generate", "mag", "--scale=0.001", "--server", address),
                    *("--graph=mag", "--seal", "--quiet"),
                )
                objects = [one for one in (scratch / "buckets").rglob("*") if one.is_file()]
                assert objects, "nothing is in the bucket"
                with urllib.request.urlopen(f"http://{json.loads(line)['http']}/readyz") as page:
                    assert page.status == 200
                server.terminate()
                assert server.wait(20) == 0
            finally:
                server.kill()
    print("ran with etcd and S3 over TLS")


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["OCIv1"]["config"]
    assert config["Labels"]["org.opencontainers.image.version"]
    try:
        check_files(folder / "root")
        with contained(folder / "root"):
            container = Container(folder / "root", config)
            check_run(container)
            if why_not := why_no_cluster():
                print(f"not run with etcd and S3: {why_not}")
            else:
                check_cluster(container)
    except AssertionError as error:
        print(f"image_check: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
