"""The wheels: what is in them, and that they need nothing but Python.

PACKHOUSE_WHEEL_PROGRAMS and PACKHOUSE_METIS name what goes into them. `make wheel-check` (wheel_check.py)
tries them in clean roots of Debian, too.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from typing import Any, Final

import pytest

REPOSITORY: Final = pathlib.Path(__file__).parents[2]
SOURCES: Final = REPOSITORY / "deploy" / "wheel"
sys.path += [str(SOURCES), str(REPOSITORY / "tests" / "conformance")]

from build_wheels import LINKED  # noqa: E402
from environments import environment as environment_of, packages_of  # noqa: E402  (from the folders above)
from link_archives import ARCHIVED, archive_of  # noqa: E402
from notices import COMPILED_IN, packages_of as debian_packages_of  # noqa: E402

if "PACKHOUSE_WHEEL_PROGRAMS" not in os.environ:
    pytest.skip("PACKHOUSE_WHEEL_PROGRAMS names no folder", allow_module_level=True)

# Of environments.txt: what the package is installed with.
PACKAGES: Final = "packaging-3.11-middle"
# The wheel is on its way to users of laptops: what makes it larger is worth a look.
MOST_BYTES: Final = 30_000_000


def run(*command: Any, **options: Any) -> str:
    ran = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    assert ran.returncode == 0, f"{' '.join(map(str, command))}\n{ran.stdout}"
    return ran.stdout


def version_of_the_repository() -> str:
    text = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"^project\(packhouse VERSION (\S+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with both wheels and the sdist."""
    folder = tmp_path_factory.mktemp("wheels") / "wheels"
    run(
        *(sys.executable, "-B", SOURCES / "build_wheels.py", "--zip-level", 1),
        *("--programs", os.environ["PACKHOUSE_WHEEL_PROGRAMS"]),
        *("--metis", os.environ["PACKHOUSE_METIS"], "--output", folder),
    )
    return folder


@pytest.fixture(scope="module")
def server_wheel(wheels: pathlib.Path) -> zipfile.ZipFile:
    (path,) = wheels.glob("packhouse_server-*.whl")
    assert path.stat().st_size < MOST_BYTES
    return zipfile.ZipFile(path)


def text_of(wheel: zipfile.ZipFile, ending: str) -> str:
    (name,) = (name for name in wheel.namelist() if name.endswith(ending))
    return wheel.read(name).decode()


def test_wheels_are_for_every_linux_of_their_time(wheels: pathlib.Path) -> None:
    names = sorted(path.name for path in wheels.iterdir())
    machine = os.uname().machine
    version = re.escape(version_of_the_repository())
    expected = (
        rf"packhouse-{version}-cp39-abi3-manylinux.*_{machine}\.whl",
        rf"packhouse-{version}\.tar\.gz",
        rf"packhouse_server-{version}-py3-none-manylinux_2_36_{machine}\.whl",
    )
    assert len(names) == len(expected)
    for name, pattern in zip(names, expected):
        assert re.fullmatch(pattern, name), name


def test_programs_can_be_run_and_have_no_symbols(server_wheel: zipfile.ZipFile) -> None:
    entries = server_wheel.infolist()
    programs = [one for one in entries if "/bin/" in one.filename and not one.is_dir()]
    assert sorted(info.filename for info in programs) == [
        "packhouse_server/bin/packhouse-graph",
        "packhouse_server/bin/packhouse-metis",
        "packhouse_server/bin/packhoused",
    ]
    for info in programs:
        assert info.external_attr >> 16 & stat.S_IXUSR, info.filename
        assert b".symtab" not in server_wheel.read(info), info.filename


def test_there_is_a_notice_of_all_that_is_in_it(server_wheel: zipfile.ZipFile) -> None:
    notices = text_of(server_wheel, "dist-info/NOTICES")
    table, _, licences = notices.partition("=" * 80)
    told = {
        package: files.split()
        for package, files in re.findall(r"^(\S+) \(source [^)]+\): (.+)$", table, re.MULTILINE)
    }
    told_files = {file for files in told.values() for file in files}
    # auditwheel adds a digest to each name.
    carried = {
        re.sub(r"-[0-9a-f]{8}(?=\.)", "", pathlib.PurePath(name).name)
        for name in server_wheel.namelist()
        if ".libs/" in name and not name.endswith("/")
    }
    assert carried
    for library in carried:
        stem = library.partition(".so")[0]
        assert any(file.startswith(f"{stem}.so") for file in told_files), library
    # Each package's own text is there, and the texts that it refers to.
    headings = {
        name.strip()
        for heading in re.findall(r"^={80}\n(.+)\n={80}$", notices, re.MULTILINE)
        for name in heading.split(",")
    }
    assert set(told) <= headings
    for name in ("Apache-2.0", "LGPL-2.1"):
        assert name in headings
    assert "Lesser General Public License" in licences or "LESSER GENERAL PUBLIC LICENSE" in licences
    assert "Apache License" in text_of(server_wheel, "dist-info/LICENSE")


@pytest.mark.parametrize("program", LINKED)
def test_what_is_under_the_lgpl_can_be_replaced(program: str) -> None:
    """Nothing of that is linked into the program."""
    archives = pathlib.Path(os.environ["PACKHOUSE_WHEEL_PROGRAMS"], f"{program}.archives")
    paths = [pathlib.Path(line) for line in archives.read_text(encoding="utf-8").split()]
    assert {"libgrpc.a", "libprotobuf.a", "libabsl_strings.a"} <= {path.name for path in paths}
    for package in debian_packages_of(paths):
        text = pathlib.Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8")
        licences = re.findall(r"^License: *(.+)$", text, re.MULTILINE)
        assert not [name for name in licences if name.startswith("LGPL")], package


@pytest.mark.parametrize("name", ["gnutls", "microhttpd", "crypto", "ssl", "z", "curl", "gmp", "jwt"])
def test_shared_libraries_stay_shared(name: str, tmp_path: pathlib.Path) -> None:
    assert not ARCHIVED.fullmatch(name)
    (tmp_path / f"lib{name}.a").touch()
    assert archive_of(f"{tmp_path}/lib{name}.so.1", []) is None
    assert archive_of(f"-l{name}", [tmp_path]) is None


def test_words_of_a_link_command_become_archives(tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "libgrpc++.a"
    archive.touch()
    assert archive_of(f"{tmp_path}/libgrpc++.so.1.51.1", []) == archive
    assert archive_of("-lgrpc++", [tmp_path]) == archive
    # Not there; not a library.
    assert archive_of("-lre2", [tmp_path]) is None
    for word in ("-O3", "service/libpackhouse_rpc.a", "-Wl,--gc-sections", "main.cc.o"):
        assert archive_of(word, [tmp_path]) is None


def test_what_is_compiled_against_is_fetched_for_other_machines() -> None:
    """Of [build] and [page], sysroot.sh leaves out only packages of programs."""
    wanted = run(REPOSITORY / "deploy" / "install-packages.sh", "--list", "build", "page").split()
    taken = run(SOURCES / "sysroot.sh", "--list").split()
    assert set(taken) < set(wanted)
    # make has a header for plug-ins of its own; libpython3-dev has no files, and depends on others.
    of_use = re.compile(
        r"^/usr/(?:include/.+/.+|include/(?!gnumake).+\.h|lib/.+\.a|share/nodejs/.+)$", re.MULTILINE
    )
    for package in sorted({*wanted} - {"libpython3-dev"}):
        used = of_use.findall(run("dpkg-query", "-L", package))
        assert bool(used) == (package in taken), (package, used[:3])


def test_notices_have_all_scripts_of_the_page(tmp_path: pathlib.Path) -> None:
    meta = tmp_path / "meta.json"
    run(
        *("esbuild", "service/wings/page/web/main.ts", "--bundle", "--log-level=warning"),
        *(f"--outfile={tmp_path}/page.js", f"--metafile={meta}"),
        cwd=REPOSITORY,
        env=os.environ | {"NODE_PATH": "/usr/share/nodejs"},
    )
    inputs = (REPOSITORY / name for name in json.loads(meta.read_text(encoding="utf-8"))["inputs"])
    of_others = [path.resolve() for path in inputs]
    of_others = [path for path in of_others if REPOSITORY.resolve() not in path.parents]
    assert of_others
    assert set(debian_packages_of(of_others)) <= set(COMPILED_IN)


def test_the_first_example_runs_where_there_is_nothing_but_python(
    wheels: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    text = (REPOSITORY / "tests/conformance/environments.txt").read_text(encoding="utf-8")
    home = tmp_path / "home"
    run("/usr/bin/python3", "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
    fetched = subprocess.run(
        [*pip, *packages_of(PACKAGES, text)], capture_output=True, text=True, check=False
    )
    if fetched.returncode != 0:
        pytest.skip(f"packages cannot be fetched: {fetched.stderr.strip().splitlines()[-1:]}")
    run(*pip, "--no-index", "--find-links", wheels, "packhouse[server]")

    # Neither compilers nor variables, and away from the repository.
    environment = {"PATH": str(home / "bin"), "HOME": str(tmp_path)}
    assert shutil.which("cc", path=environment["PATH"]) is None
    example = shutil.copy(pathlib.Path(__file__).with_name("wheel_example.py"), tmp_path)
    said = run(python, "-I", "-W", "error", example, env=environment, cwd=tmp_path)
    assert "1000 graphs, each once" in said
    version = run(home / "bin" / "packhoused", "--version", env=environment, cwd=tmp_path)
    assert version.strip() == version_of_the_repository()


def test_the_readmes_two_lines_run_with_the_wheels_server(
    wheels: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    try:
        python = environment_of("pyg", REPOSITORY / "build" / "environments")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"PyG cannot be fetched: {error}")
    site = tmp_path / "site"
    install = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index")
    run(*install, "--find-links", wheels, "--target", site, "packhouse", "packhouse-server")
    said = run(
        *(python, "-B", pathlib.Path(__file__).with_name("wheel_pyg_example.py"), site),
        env={"PATH": "/nowhere", "HOME": str(tmp_path / "home"), "PYTHONPATH": str(site)},
        cwd=tmp_path,
    )
    assert "1000 graphs, of the wheel's server" in said
