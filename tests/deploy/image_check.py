"""Looks at an image that `make image` has built, and runs it once.

    python3 image_check.py build/image

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
import subprocess
import sys
import urllib.request
from typing import Any, Final, Iterator

MOST_BYTES: Final = 130_000_000
# What installs, and what nobody needs: each would be something to keep up to date.
UNWANTED: Final = ("perl", "apt", "apt-get", "dpkg", "gcc", "python3")
SBOM: Final = "usr/share/sbom/packhouse.spdx.json"


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
def proc(root: pathlib.Path) -> Iterator[None]:
    """As a container has it."""
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(root / "proc")], check=True)


def check_run(root: pathlib.Path, config: dict[str, Any]) -> None:
    """It starts as its user, is healthy by its own check, plans, and ends when asked."""
    uid, gid = (int(part) for part in config["User"].split(":"))

    def inside(*command: str, **how: Any) -> subprocess.Popen[str]:
        def enter() -> None:
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)

        return subprocess.Popen(
            command,
            preexec_fn=enter,
            env=dict(one.split("=", 1) for one in config["Env"]),
            text=True,
            stdout=subprocess.PIPE,
            **how,
        )

    def said(*command: str) -> str:
        done = inside(*command)
        text, _ = done.communicate(timeout=20)
        assert done.returncode == 0, f"{command} ended with status {done.returncode}"
        return text

    version = json.loads((root / SBOM).read_text(encoding="utf-8"))["packages"][0]["versionInfo"]
    assert said("packhoused", "--version").strip() == version
    assert "Usage" in said("packhouse", "--help")
    entry = list(config["Entrypoint"])
    server = inside(
        *(word.replace("0.0.0.0:50051", "127.0.0.1:0") for word in entry),
        *("--http-listen=127.0.0.1:0", "--insecure", "--lame-duck=0s", "--data-dir=/data"),
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.stdout is not None
        ready = re.fullmatch(r"listening grpc=(\S+) http=(\S+)", server.stdout.readline().strip())
        assert ready is not None, "it does not say where it listens"
        with urllib.request.urlopen(f"http://{ready[2]}/healthz") as page:
            assert page.status == 200
        with urllib.request.urlopen(f"http://{ready[2]}/metrics") as page:
            build = re.search(r"packhouse_build_info\{(.*)\} 1", page.read().decode())
        assert build is not None and f'version="{version}"' in build[1], build
        port = ready[2].rpartition(":")[2]
        for health in ("/healthz", "/readyz"):
            script = f"exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET {health} HTTP/1.0\\r\\n\\r\\n' >&3"
            said("bash", "-c", script + ' && read -r _ status _ <&3 && [ "$status" = 200 ]')
        # A real call through it, by the command that is in the image.
        address = ready[1]
        (root / "tmp/sizes.csv").write_text("num_nodes,num_edges,count\n3,4,6\n7,2,5\n")
        plan = json.loads(said(
            *("packhouse", "plan", "--server", address, "--sizes", "/tmp/sizes.csv"),
            *("--limit", "nodes=10", "--limit", "edges=30", "--compare", "none", "--json"),
        ))
        # Five pairs of a small and a large graph, and a small one that is left.
        assert plan["best"]["packs"] == 6 and plan["best"]["optimal"], plan["best"]
        server.terminate()
        assert server.wait(20) == 0
    finally:
        server.kill()
    print(f"ran as {uid}:{gid}: {build[1]}")


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["OCIv1"]["config"]
    assert config["Labels"]["org.opencontainers.image.version"]
    try:
        check_files(folder / "root")
        with proc(folder / "root"):
            check_run(folder / "root", config)
    except AssertionError as error:
        print(f"image_check: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
