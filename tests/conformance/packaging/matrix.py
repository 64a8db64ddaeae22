"""The wheel and the sdist in clean virtual environments, from the oldest packages to the newest.

    PACKHOUSED=build/release/service/packhoused python3 matrix.py [--folder DIR] \
        [--python 3.12 ...] [--only packaging-3.9-newest ...]

For each section packaging-PYTHON-NAME of environments.txt whose interpreter is at hand (`python3.12`
on PATH, or pyenv's): a virtual environment with these packages, and the newest of what is not named;
the wheel in it, or the sdist (by turns), built without protoc on PATH, the sdist without a C compiler;
then all of tests/python against a real server.
Exit status 1 if one of them fails; what is left out for want of an interpreter is said.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Final

REPOSITORY: Final = pathlib.Path(__file__).parents[3]
SOURCES: Final = REPOSITORY / "client" / "python"
TESTS: Final = REPOSITORY / "tests" / "python"
LIST: Final = pathlib.Path(__file__).parents[1] / "environments.txt"

# Those that need torch have environments of their own; the other holds the sources against the sdist.
LEFT_OUT: Final = ("test_torch.py", "test_torch_batches.py", "test_package.py")

VERSIONS: Final = """
import importlib.metadata, sys
from packhouse.data.reading import HAS_NATIVE
names = ("packhouse", "grpcio", "protobuf", "numpy")
print("Python", sys.version.split()[0], *(f"{n} {importlib.metadata.version(n)}" for n in names),
      "native reader" if HAS_NATIVE else "no compiler")
"""


def interpreter(version: str) -> str | None:
    found = shutil.which(f"python{version}")
    if found is not None and runs(found):
        return found
    homes = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"), "versions")
    for home in sorted(homes.glob(f"{version}.*"), reverse=True):
        if runs(str(home / "bin" / "python")):
            return str(home / "bin" / "python")
    return None


def runs(python: str) -> bool:
    command = [python, "-c", "import venv, ensurepip"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(*command: Any, **options: Any) -> None:
    ran = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{ran.stdout}")


def without_tree() -> dict[str, str]:
    """This process's environment, less the package's own tree."""
    return {name: word for name, word in os.environ.items() if name != "PYTHONPATH"}


def without_protoc() -> dict[str, str]:
    """Less the folders that have protoc, too. On Debian the compiler is gone with them."""
    environment = without_tree()
    folders = environment.get("PATH", "").split(os.pathsep)
    kept = [folder for folder in folders if not shutil.which("protoc", path=folder)]
    return environment | {"PATH": os.pathsep.join(kept)}


def with_compiler(folder: pathlib.Path) -> dict[str, str]:
    """Without protoc, but with a C compiler, of which there are links in `folder`."""
    folder.mkdir()
    for name in ("as", "cc", "gcc", "ld"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    environment = without_protoc()
    return environment | {"PATH": f"{folder}{os.pathsep}{environment['PATH']}"}


def build(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The sdist, of the repository, and the wheel, of the sdist, with the native reader."""
    run(
        *(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder),
        *("sdist", "--dist-dir", folder),
        cwd=SOURCES,
    )
    (sdist,) = folder.glob("*.tar.gz")
    tools = folder / "tools"
    run(interpreter("3.11") or sys.executable, "-m", "venv", tools)
    run(
        *(tools / "bin" / "python", "-m", "pip", "wheel", "-q", "--no-deps"),
        *("-w", folder, sdist),
        env=with_compiler(folder / "compiler"),
        cwd=folder,
    )
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def check(python: str, packages: list[str], package: pathlib.Path, home: pathlib.Path) -> str:
    """The versions that were tested. Raises RuntimeError if something fails."""
    run(python, "-m", "venv", home)
    inside = home / "bin" / "python"
    pip = (inside, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    run(*pip, "pytest", *packages, package, env=without_protoc(), cwd=home)
    left_out = [f"--ignore={TESTS / name}" for name in LEFT_OUT]
    run(
        *(inside, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out, TESTS),
        env=without_tree(),
        cwd=home,
    )
    versions = subprocess.run(
        [inside, "-c", VERSIONS], capture_output=True, text=True, check=True, cwd=home
    )
    return versions.stdout.strip()


def environments() -> list[tuple[str, str, list[str]]]:
    """Of each: its name, the version of Python, the packages."""
    found: list[tuple[str, str, list[str]]] = []
    packages: list[str] = []
    for line in LIST.read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            packages = []
            section = re.fullmatch(r"\[packaging-([0-9.]+)-\w+\]", line)
            if section is not None:
                found.append((line.strip("[]"), section.group(1), packages))
        elif line:
            packages.append(line)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, help="for the environments; default: drawn")
    parser.add_argument("--python", nargs="*", help="only these versions")
    parser.add_argument("--only", nargs="*", metavar="SECTION", help="only these environments")
    options = parser.parse_args()
    if "PACKHOUSED" not in os.environ:
        parser.error("PACKHOUSED does not name a server program")
    os.environ["PACKHOUSED"] = os.path.abspath(os.environ["PACKHOUSED"])
    num_failed = num_passed = num_skipped = 0
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="packaging-") as name:
        folder = pathlib.Path(name)
        sdist, wheel = build(folder)
        for number, (section, version, packages) in enumerate(environments()):
            if options.python and version not in options.python:
                continue
            if options.only and section not in options.only:
                continue
            python = interpreter(version)
            if python is None:
                num_skipped += 1
                print(f"SKIPPED {section}: no such interpreter", flush=True)
                continue
            started = time.monotonic()
            package = sdist if number % 2 else wheel
            home = folder / str(number)
            try:
                versions = check(python, packages, package, home)
            except RuntimeError as error:
                num_failed += 1
                print(f"FAILED {section}\n{error}", flush=True)
            else:
                num_passed += 1
                seconds = time.monotonic() - started
                print(f"passed {section}: {versions} ({package.suffix}, {seconds:.0f} s)", flush=True)
            shutil.rmtree(home, ignore_errors=True)
    print(f"{num_passed} passed, {num_failed} failed, {num_skipped} skipped")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
