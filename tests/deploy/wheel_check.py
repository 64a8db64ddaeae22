"""Tries the wheels in clean roots of Debian 12 and of a newer Debian, without compilers and without a network.

    python3 wheel_check.py [--folder build/wheel-roots] [--suite SUITE ...] build/wheels

For each suite debootstrap makes a root with Python and nothing else, in a folder of that name, and keeps it for the
next time; DEBIAN_MIRROR is where it gets packages, if not where it always does. What the wheels need of PyPI
is fetched for the root's Python. Then they are installed in the root, and wheel_example.py runs there. Needs root.
Exit status 1 if anything is not as it should be; then a line says what.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Final, Iterator

EXAMPLE: Final = pathlib.Path(__file__).with_name("wheel_example.py")
SUITES: Final = ("bookworm", "trixie")
INCLUDED: Final = "python3-minimal,python3-venv"
# Where wheels of dependencies for the root's glibc are found, newest first.
PLATFORMS: Final = ("manylinux_2_36", "manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
UNWANTED: Final = ("cc", "gcc", "c++", "protoc", "packhoused")


def run(*command: Any, **options: Any) -> str:
    """What it says. Raises RuntimeError if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def make_root(suite: str, root: pathlib.Path) -> None:
    """Debian's smallest installation with Python, made if it is not there."""
    if (root / "made").exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    mirror = [os.environ["DEBIAN_MIRROR"]] if "DEBIAN_MIRROR" in os.environ else []
    run("debootstrap", "--variant=minbase", f"--include={INCLUDED}", suite, root, *mirror)
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
    (root / "made").touch()


@contextlib.contextmanager
def contained(root: pathlib.Path) -> Iterator[None]:
    """/proc, by which the server finds its own program."""
    run("mount", "-t", "proc", "proc", root / "proc")
    try:
        yield
    finally:
        run("umount", "--lazy", root / "proc")


def inside(root: pathlib.Path, *command: str) -> str:
    """What a command says in the root, which has no network but its own."""
    enter = "ip link set lo up 2>/dev/null; exec chroot \"$@\""
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    return run("unshare", "--net", "sh", "-c", enter, "sh", root, *command, env=environment)


def fetch(root: pathlib.Path, wheels: pathlib.Path) -> None:
    """The wheels and what they need, for the root's Python, into its folder /wheels."""
    version = inside(root, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    place = root / "wheels"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    machine = os.uname().machine
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    run(
        *(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"),
        *("--only-binary=:all:", "--python-version", version, *platforms),
        *("--find-links", wheels, "--dest", place, "packhouse[server]"),
    )


def check(root: pathlib.Path) -> str:
    """What the example said."""
    shutil.rmtree(root / "opt/venv", ignore_errors=True)
    for name in UNWANTED:
        found = shutil.which(name, path=f"{root}/usr/bin:{root}/usr/local/bin:{root}/usr/sbin")
        assert found is None, f"the root is not clean: {found}"
    inside(root, "python3", "-m", "venv", "/opt/venv")
    pip = ("/opt/venv/bin/python", "-m", "pip", "install", "-q", "--no-index", "--find-links", "/wheels")
    inside(root, *pip, "packhouse[server]")
    shutil.copy(EXAMPLE, root / "opt/example.py")
    inside(root, "/opt/venv/bin/packhoused", "--version")
    return inside(root, "/opt/venv/bin/python", "-I", "/opt/example.py")


def name_of(root: pathlib.Path) -> str:
    text = (root / "etc/os-release").read_text(encoding="utf-8")
    found = re.search(r'^PRETTY_NAME="(.*)"$', text, re.MULTILINE)
    return found[1] if found else str(root)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/wheel-roots"))
    parser.add_argument("--suite", nargs="+", default=SUITES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    num_failed = 0
    for suite in options.suite:
        started = time.monotonic()
        root = options.folder.resolve() / suite
        try:
            make_root(suite, root)
            fetch(root, options.wheels.resolve())
            with contained(root):
                said = check(root)
        except (RuntimeError, AssertionError) as error:
            num_failed += 1
            print(f"FAILED {suite}: {error}", flush=True)
        else:
            seconds = time.monotonic() - started
            (last,) = said.strip().splitlines()[-1:]
            print(f"passed {name_of(root)}: {last} ({seconds:.0f} s)", flush=True)
    print(f"{len(options.suite) - num_failed} passed, {num_failed} failed")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
