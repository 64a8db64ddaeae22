"""What importing packhouse brings with it. Modules are counted, and not seconds."""

from __future__ import annotations

import ast
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import packhouse

# Each takes a large part of the time in which a person expects a prompt.
HEAVY = {"asyncio", "google", "grpc", "numpy"}
# Records all that anybody tries to import, also of what is not installed here.
RECORDER = """
import sys
tried = set()
class Recorder:
    def find_spec(self, name, path=None, target=None):
        tried.add(name)
sys.meta_path.insert(0, Recorder())
"""
FRAMEWORKS = {
    *("ase", "dgl", "h5py", "jax", "jraph", "lmdb", "matplotlib", "pandas", "pyarrow", "scipy"),
    *("tensorflow", "tensorflow_gnn", "torch", "torch_geometric"),
}


def tried_by(program: str) -> set[str]:
    """The modules that a program of its own imports, or tries to."""
    told = subprocess.run(
        [sys.executable, "-c", f"{RECORDER}\n{program}\nprint(*tried, sep='\\n')"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return set(told.stdout.split())


def packages_of(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("packhouse.")}


def test_importing_packhouse_brings_none_of_what_it_works_with() -> None:
    tried = tried_by("import packhouse")
    assert not packages_of(tried) & (HEAVY | FRAMEWORKS)
    assert ours(tried) == {"packhouse._version", "packhouse.base", "packhouse.base.processes"}


def test_help_does_not_wait_for_what_commands_work_with() -> None:
    program = """
import runpy
sys.argv = ["packhouse", "--help"]
stdout, sys.stdout = sys.stdout, sys.stderr
try:
    runpy.run_module("packhouse", run_name="__main__")
except SystemExit as end:
    assert end.code == 0, end
sys.stdout = stdout
"""
    tried = tried_by(program)
    assert not packages_of(tried) & (HEAVY | FRAMEWORKS)


def test_a_name_brings_what_it_needs_and_no_framework() -> None:
    tried = tried_by("from packhouse import *")
    assert not packages_of(tried) & FRAMEWORKS
    assert "grpc" in tried
    # A noun of the client brings its modules when it is used first.
    floors = {name.split(".")[1] for name in ours(tried_by("from packhouse import Client"))}
    known = {"_version", "_native", "v1", "base", "data", "calls", "planning", "client"}
    assert floors <= known
    # Arrays are made without a connection.
    assert "grpc" not in tried_by("from packhouse import GraphTable, LocalServer")


def test_settings_of_grpc_are_made_before_it_is_imported() -> None:
    program = """
import os, sys
os.environ.pop("GRPC_POLL_STRATEGY", None)
import packhouse
assert "grpc" not in sys.modules
assert os.environ["GRPC_POLL_STRATEGY"] == "poll"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def told_to_type_checkers() -> dict[str, str]:
    """Names, and the modules that `packhouse` imports them from for type checkers."""
    tree = ast.parse(pathlib.Path(packhouse.__file__).read_text(encoding="utf-8"))
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    return {
        name.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def test_type_checkers_and_the_interpreter_find_the_same_names() -> None:
    told = told_to_type_checkers()
    found = {name: f"packhouse.{module}" for name, module in packhouse._MODULE_OF.items()}
    assert found == told
    assert set(packhouse.__all__) == {*told, "__version__", "keep_forks_apart"}
    for name in told:
        assert getattr(packhouse, name) is getattr(sys.modules[told[name]], name)


def test_no_name_is_a_modules_too() -> None:
    """Importing that module would put it in the place of what is meant."""
    modules = {module.name for module in pkgutil.iter_modules(packhouse.__path__)}
    assert not modules & set(packhouse.__all__)


def test_names_are_listed_and_others_are_refused() -> None:
    assert set(packhouse.__all__) <= set(dir(packhouse))
    assert not hasattr(packhouse, "Lodaer")
    with pytest.raises(AttributeError, match="module 'packhouse' has no attribute 'Lodaer'"):
        packhouse.Lodaer  # type: ignore[attr-defined]
