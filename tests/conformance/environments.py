"""Runs tests in a virtual environment of the packages that environments.txt lists for it.

    environments.py [--folder build/environments] [--module MODULE] NAME -- arguments of pytest
    environments.py [--folder build/environments] --program FILE.py NAME -- its arguments

The environment is made when it is not there or its list has changed. Exit status 77, which CTest
counts as skipped, if packages cannot be fetched and --skip-without-packages is given, or, with --if-made,
if the environment is not there as listed: nothing is fetched then.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Final

LIST: Final = pathlib.Path(__file__).with_name("environments.txt")
SKIPPED: Final = 77
# Of pytest, where all files skip themselves.
NO_TESTS: Final = 5


def packages_of(name: str, text: str) -> list[str]:
    """The requirements in the section [name]. Raises ValueError if there is none."""
    section = ""
    packages: list[str] = []
    names = []
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            section = line.strip("[]")
            names.append(section)
        elif line and section == name:
            packages.append(line)
    if name not in names:
        raise ValueError(f"{LIST.name} has no section [{name}], only {names}")
    return packages


def environment(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The interpreter of the environment, made if need be. Raises subprocess.CalledProcessError."""
    packages = packages_of(name, LIST.read_text())
    # `@other`: over that environment, whose packages are seen through this one. `--option`: of pip.
    below = [package[1:] for package in packages if package.startswith("@")]
    seen = [_site_packages(environment(other, folder)) for other in below]
    place = folder.resolve() / name
    stamp = place / "packages.sha256"
    python = place / "bin" / "python"
    wanted = _wanted(packages, folder)
    packages = [package for package in packages if not package.startswith("@")]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "w") as lock:
        # Two tests may want it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return python
        shutil.rmtree(place, ignore_errors=True)
        # Where the system's pip is seen through the environment, it need not have another one.
        without_pip = ["--without-pip"] if importlib.util.find_spec("pip") else []
        make = [sys.executable, "-m", "venv", "--system-site-packages", *without_pip, place]
        subprocess.run(make, check=True)
        # Before the packages: what is built from source may need those below.
        for number, path in enumerate(seen):
            (_site_packages(python) / f"below_{number}.pth").write_text(f"{path}\n")
        if packages:
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--no-deps", *packages],
                check=True,
                env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            )
        stamp.write_text(wanted)
    return python


def is_made(name: str, folder: pathlib.Path) -> bool:
    """Whether the environment is there as it is listed, and those that it is over."""
    packages = packages_of(name, LIST.read_text())
    below = [package[1:] for package in packages if package.startswith("@")]
    stamp = folder / name / "packages.sha256"
    if not stamp.exists() or not all(is_made(other, folder) for other in below):
        return False
    return stamp.read_text() == _wanted(packages, folder)


def _wanted(packages: list[str], folder: pathlib.Path) -> str:
    """What the stamp of the environment has when it is as listed; those below must be there."""
    below = [package[1:] for package in packages if package.startswith("@")]
    own = [package for package in packages if not package.startswith("@")]
    stamps = [(folder / other / "packages.sha256").read_text() for other in below]
    return hashlib.sha256("\n".join([sys.version, *stamps, *own]).encode()).hexdigest()


def _site_packages(python: pathlib.Path) -> pathlib.Path:
    (found,) = python.parent.parent.glob("lib/python3*/site-packages")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="a section of environments.txt")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/environments"))
    parser.add_argument("--skip-without-packages", action="store_true")
    parser.add_argument("--if-made", action="store_true")
    parser.add_argument("--module", default="pytest", help="what is run in it")
    parser.add_argument("--program", help="a file that is run in it, instead of a module")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="-- arguments of pytest, or of it")
    arguments = parser.parse_args()
    if arguments.if_made and not is_made(arguments.name, arguments.folder):
        print(f"the environment {arguments.name!r} is not made: `make conformance` makes it")
        return SKIPPED
    try:
        python = environment(arguments.name, arguments.folder)
    except subprocess.CalledProcessError as error:
        print(f"the environment {arguments.name!r} could not be made: {error}", file=sys.stderr)
        return SKIPPED if arguments.skip_without_packages else 1
    words = [word for word in arguments.words if word != "--"]
    if arguments.program:
        return subprocess.run([python, "-B", arguments.program, *words], check=False).returncode
    if arguments.module == "pytest":
        words = ["-q", "-rs", "-p", "no:cacheprovider", *words]
    status = subprocess.run(
        [python, "-B", "-m", arguments.module, *words], check=False
    ).returncode
    if arguments.module == "pytest" and status == NO_TESTS and arguments.skip_without_packages:
        return SKIPPED
    return status


if __name__ == "__main__":
    sys.exit(main())
