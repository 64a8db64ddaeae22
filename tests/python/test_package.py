"""The package as it is shipped: an sdist is built without protoc and without the repository."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile

import pytest

import packhouse
from packhouse.calls.channel import service_config

REPOSITORY = pathlib.Path(__file__).parents[2]
SOURCES = REPOSITORY / "client" / "python"


def version_of_the_repository() -> str:
    found = re.search(r"project\(packhouse VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text())
    assert found is not None
    return found.group(1)


def run(*command: str | os.PathLike[str], folder: pathlib.Path, path: str | None = None) -> str:
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    if path is not None:
        environment["PATH"] = path
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Unpacked, away from the repository."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("sdist")
    command = ("setup.py", "-q", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", folder)
    run(sys.executable, *command, folder=SOURCES)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


def reader_of(folder: pathlib.Path) -> str:
    """Which reader the package in that folder takes."""
    program = (
        "from packhouse.data.reading import new_reader; print(type(new_reader(is_loaded=True)).__name__)"
    )
    return run(sys.executable, "-c", program, folder=folder).strip()


def can_compile() -> bool:
    headers = pathlib.Path(sysconfig.get_path("include"), "Python.h")
    return headers.is_file() and shutil.which("cc") is not None


def test_the_version_is_that_of_the_repository() -> None:
    assert packhouse.__version__ == version_of_the_repository()


def test_the_server_that_the_package_brings_is_of_its_version() -> None:
    text = (SOURCES / "pyproject.toml").read_text()
    brought = re.search(r'^server = \["packhouse-server==(\S+)"\]$', text, re.MULTILINE)
    assert brought is not None
    assert brought[1] == version_of_the_repository()


def test_an_sdist_is_built_without_protoc_and_the_repository(
    sdist: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert sdist.name == f"packhouse-{version_of_the_repository()}"
    build = ("setup.py", "-q", "build", "--build-base", tmp_path / "base", "--build-lib", tmp_path)
    run(sys.executable, *build, folder=sdist, path="/nowhere")
    program = (
        "import packhouse, packhouse.calls.channel; "
        "print(packhouse.__file__, packhouse.__version__, "
        "len(packhouse.calls.channel.service_config()['methodConfig'][0]['name']))"
    )
    imported = run(sys.executable, "-c", program, folder=tmp_path)
    retried = len(service_config()["methodConfig"][0]["name"])
    place = tmp_path / "packhouse" / "__init__.py"
    assert imported.split() == [str(place), version_of_the_repository(), str(retried)]
    # There was no compiler either: batches are read in Python.
    assert reader_of(tmp_path) == "BatchReader"
    # All of what is in the tree is in the package, and nothing is beside it.
    ours = {path.relative_to(SOURCES) for path in (SOURCES / "packhouse").rglob("*.py")}
    theirs = {path.relative_to(tmp_path) for path in (tmp_path / "packhouse").rglob("*.py")}
    generated = {path for path in theirs if path.parent.name == "v1" or path.name == "_version.py"}
    assert theirs - generated == ours
    for name in ("py.typed", "_native.pyi"):
        assert (tmp_path / "packhouse" / name).is_file()
    assert not list(SOURCES.glob("*.egg-info"))


@pytest.mark.skipif(not can_compile(), reason="there is no C compiler, or no header of Python's")
def test_an_sdist_has_the_native_reader_where_there_is_a_compiler(
    sdist: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    build = ("setup.py", "-q", "build", "--build-base", tmp_path / "base", "--build-lib", tmp_path)
    run(sys.executable, *build, folder=sdist)
    # One file for all versions of Python.
    assert [path.name for path in (tmp_path / "packhouse").glob("_native*.so")] == [
        "_native.abi3.so"
    ]
    assert reader_of(tmp_path) == "NativeReader"
