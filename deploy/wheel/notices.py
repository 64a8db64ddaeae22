"""What the wheel packhouse-server has of others: from which packages of Debian, under which licences."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from typing import Final, Iterable, Sequence

# What every system of the wheel's platform has: auditwheel leaves it out.
SYSTEM_PACKAGES: Final = frozenset({"libc6", "libgcc-s1", "libstdc++6", "zlib1g"})
# Of these, headers are compiled into the server, or scripts lie in it for its page.
COMPILED_IN: Final = (
    "libcli11-dev",
    "libtomlplusplus-dev",
    "nlohmann-json3-dev",
    "node-d3-array",
    "node-d3-axis",
    "node-d3-collection",
    "node-d3-color",
    "node-d3-format",
    "node-d3-interpolate",
    "node-d3-path",
    "node-d3-scale",
    "node-d3-selection",
    "node-d3-shape",
    "node-d3-time",
    "node-d3-time-format",
)
_ROOTS: Final = (pathlib.Path("/"), pathlib.Path("/usr"))
_DPKG: Final = "var/lib/dpkg"
_COMMON: Final = pathlib.Path("/usr/share/common-licenses")
_HEAD: Final = """\
packhouse-server is under the Apache License 2.0 (LICENSE). In this wheel, or in programs of it, is also
what follows, built by Debian and unchanged but for the names by which libraries find each other. Sources
are those of the packages, in the versions given.
"""


def shared_libraries(
    programs: Iterable[pathlib.Path], runner: Sequence[str | pathlib.Path] = ()
) -> set[pathlib.Path]:
    """All that the loader loads for them. `runner` runs a program of another kind of machine."""
    # As ldd asks it.
    environment = os.environ | {"LD_TRACE_LOADED_OBJECTS": "1"}
    found = set()
    for program in programs:
        told = subprocess.run(
            [*runner, program], env=environment, capture_output=True, text=True, check=True
        ).stdout
        if "not found" in told:
            raise RuntimeError(f"{program}: {told}")
        found |= {pathlib.Path(path) for path in re.findall(r"=> (/\S+)", told)}
    return found


def packages_of(files: Iterable[pathlib.Path], root: pathlib.Path = pathlib.Path("/")) -> dict[str, set[str]]:
    """The files' names by the packages of `root` that they come from. Raises RuntimeError for any of none."""
    files = list(files)
    # A package lists its files in /lib or in /usr/lib, which are the same; the other is not found.
    paths = [base / str(path).removeprefix("/usr").lstrip("/") for path in files for base in _ROOTS]
    query = ["dpkg-query", f"--admindir={root / _DPKG}"]
    told = subprocess.run([*query, "-S", *paths], capture_output=True, text=True, check=False)
    by_package: dict[str, set[str]] = {}
    for line in told.stdout.splitlines():
        package, _, path = line.partition(": ")
        by_package.setdefault(package.partition(":")[0], set()).add(pathlib.Path(path).name)
    known = {name for names in by_package.values() for name in names}
    if missing := sorted(path.name for path in files if path.name not in known):
        raise RuntimeError(f"files of no package: {missing}")
    return by_package


def versions_of(packages: Iterable[str], root: pathlib.Path) -> dict[str, str]:
    """`source package version` of each."""
    told = subprocess.run(
        [
            *("dpkg-query", f"--admindir={root / _DPKG}", "-W", "-f"),
            "${Package} ${source:Package} ${source:Version} ${db:Status-Status}\\n",
            *packages,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = (line.split(" ") for line in told.splitlines())
    return {name: f"{source} {version}" for name, source, version, status in rows if status == "installed"}


def notices(libraries: Iterable[pathlib.Path], archives: Iterable[pathlib.Path], root: pathlib.Path) -> str:
    """The text for the wheel: a table, what each package says of its licences, and the licences. The libraries
    are named as they lie in `root`, the archives as the linker took them.
    """
    shared = packages_of(libraries, root)
    linked = packages_of((pathlib.Path("/", path.relative_to(root)) for path in archives), root)
    carried = {name: files for name, files in shared.items() if name not in SYSTEM_PACKAGES}
    packages = sorted({*carried, *linked, *COMPILED_IN})
    versions = versions_of(packages, root)
    lines = [_HEAD]
    texts: dict[str, list[str]] = {}
    for package in packages:
        path = root / "usr/share/doc" / package / "copyright"
        texts.setdefault(path.read_text(encoding="utf-8", errors="replace"), []).append(package)
        files = sorted({*carried.get(package, ()), *linked.get(package, ())})
        lines.append(f"{package} (source {versions[package]}): {' '.join(files) or 'compiled in'}")
    common = sorted({name for text in texts for name in _common_licences(text)})
    for text, names in texts.items():
        lines += ["", "=" * 80, ", ".join(names), "=" * 80, "", text]
    for name in common:
        lines += ["", "=" * 80, f"{name}, which is mentioned above", "=" * 80, ""]
        lines.append((_COMMON / name).read_text(encoding="utf-8"))
    return "\n".join(lines) + "\n"


def _common_licences(text: str) -> set[str]:
    named = re.findall(r"/usr/share/common-licenses/([\w.+-]*[\w+])", text)
    return {name for name in named if (_COMMON / name).is_file()}
