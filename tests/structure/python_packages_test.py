"""Rejects an import that points the wrong way through the Python package, and circles.

The packages of client/python/packhouse stand on floors: a module imports modules of its own package
and of those below it, wherever in the file the import stands: at its top, in a function, or for type
checkers. The modules beside the packages are what users import (`packhouse.pyg`): they see all
packages but the programs, and no package but the programs sees them. No modules import each other in
a circle. The pages of `make docs` are modules that are there.

Usage: python_packages_test.py REPOSITORY. Exit status 1 if there is a wrong import or a circle, if a
folder is no package of the list, or if the check fails to find a wrong import that it is given.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from typing import Iterator

# From the lowest floor to the highest; `""` stands for the modules that users import.
FLOORS = (
    "base", "data", "calls", "planning", "stored", "large", "epochs", "client", "frameworks",
    "files", "", "command", "demo",
)
# Within frameworks: its own modules, then what is made of torch, then each framework by itself.
FRAMEWORKS = ({""}, {"torch"}, {"pyg", "dgl", "jraph", "tfgnn"})
# Any module may see these: what is generated, the C extension, and the package's lazy names.
ANYWHERE = ("packhouse.v1", "packhouse._version", "packhouse._native", "packhouse")

# `packhouse.X` that are programs, though they lie beside the packages.
PROGRAMS = {"packhouse.__main__": "command"}


def package_of(module: str) -> str:
    """The package of FLOORS in which a module lies."""
    if module in PROGRAMS:
        return PROGRAMS[module]
    parts = module.split(".")
    return parts[1] if len(parts) > 2 or parts[1] in FLOORS else ""


def part_of_frameworks(module: str) -> str:
    """The framework, or torch, of a module of frameworks; "" if it is of them all."""
    part = module.split(".")[2] if module.count(".") > 1 else ""
    return part if module.count(".") > 2 or any(part in floor for floor in FRAMEWORKS) else ""


def wrong_import(module: str, imported: str) -> str | None:
    """Why `module` must not import the module `imported`; None if it may."""
    if module == "packhouse" or imported in ANYWHERE or imported.startswith("packhouse.v1."):
        return None
    own, other = package_of(module), package_of(imported)
    if other not in FLOORS:
        return f"{other} is no package of FLOORS"
    if FLOORS.index(other) > FLOORS.index(own):
        return f"{other or 'what users import'} is not below {own or 'what users import'}"
    if own == other == "frameworks":
        one, another = map(part_of_frameworks, (module, imported))
        floors = [
            next((n for n, names in enumerate(FRAMEWORKS) if part in names), None)
            for part in (one, another)
        ]
        if None in floors:
            return f"frameworks.{one} or frameworks.{another} is no package of FRAMEWORKS"
        if one != another and floors[1] >= floors[0]:  # type: ignore[operator]
            return f"frameworks.{another} is not below frameworks.{one}"
    return None


def imports_of(module: str, is_package: bool, source: str, known: set[str]) -> Iterator[str]:
    """The modules of packhouse that a module imports, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (
                each.name for each in node.names if each.name.split(".")[0] == "packhouse"
            )
        if not isinstance(node, ast.ImportFrom):
            continue
        name = node.module or ""
        if node.level:
            own = module.split(".")
            folder = own[: len(own) - node.level + is_package]
            name = ".".join([*folder, name] if name else folder)
        if name.split(".")[0] == "packhouse":
            for each in node.names:
                below = f"{name}.{each.name}"
                yield below if below in known else name


def circles(imports: dict[str, set[str]]) -> list[str]:
    """Circles of imports, one for each module from which one begins that was not on an earlier."""
    found: list[str] = []
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            found.append(" -> ".join([*way[way.index(module) :], module]))
        elif module not in done:
            for each in sorted(imports.get(module, ())):
                visit(each, [*way, module])
            done.add(module)

    for module in sorted(imports):
        visit(module, [])
    return found


def pages_of_nothing(makefile: str, known: set[str]) -> list[str]:
    """What `make docs` is to show and is no module."""
    pattern = r"^PYTHON_PAGES := (\w+) \$\(addprefix (\w+\.),([^)]*)\)$"
    listed = re.search(pattern, makefile, re.MULTILINE)
    if listed is None:
        return ["the Makefile has no PYTHON_PAGES"]
    pages = [listed[1], *(listed[2] + name for name in listed[3].split())]
    return [f"make docs: there is no module {page}" for page in pages if page not in known]


def check_itself() -> list[str]:
    """The rules must refuse these; a check that cannot fail is none."""
    refused = [
        ("packhouse.base.errors", "packhouse.calls.channel"),
        ("packhouse.data.graphs", "packhouse.frameworks.tfgnn.schemas"),
        ("packhouse.epochs.batches", "packhouse.client.facade"),
        ("packhouse.stored.dataset", "packhouse.pyg"),
        ("packhouse.files.reading", "packhouse.command.ingest"),
        ("packhouse.atoms", "packhouse.__main__"),
        ("packhouse.frameworks.layout", "packhouse.frameworks.torch.batch"),
        ("packhouse.frameworks.dgl", "packhouse.frameworks.pyg.loader"),
        ("packhouse.frameworks.dgl", "packhouse.frameworks.keras.loader"),
        ("packhouse.data.graphs", "packhouse.cellar.graphs"),
    ]
    problems = [
        f"not refused: {module} -> {imported}"
        for module, imported in refused
        if not wrong_import(module, imported)
    ]
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from packhouse.a import one
def later():
    import packhouse.b
    from . import c
    from ..d import e
"""
    known = {"packhouse.x.c"}
    found = set(imports_of("packhouse.x.own", False, source, known))
    if found != {"packhouse.a", "packhouse.b", "packhouse.x.c", "packhouse.d"}:
        problems.append(f"imports are read wrong: {sorted(found)}")
    if len(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) != 1:
        problems.append("a circle is not found")
    makefile = "PYTHON_PAGES := a $(addprefix a.,b c.d)\n"
    if pages_of_nothing(makefile, {"a", "a.b"}) != ["make docs: there is no module a.c.d"]:
        problems.append("a page of nothing is not found")
    return problems


def main() -> int:
    root = pathlib.Path(sys.argv[1]) / "client" / "python"
    problems = check_itself()
    paths = {}
    for path in sorted((root / "packhouse").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        # What a build may have left beside the sources.
        if parts[1] == "v1":
            continue
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    imports: dict[str, set[str]] = {}
    for module, path in paths.items():
        is_package = path.name == "__init__.py"
        if is_package and module != "packhouse" and module.split(".")[1] not in FLOORS:
            problems.append(f"{module} is no package of FLOORS")
        source = path.read_text(encoding="utf-8")
        found = set(imports_of(module, is_package, source, set(paths)))
        problems += [
            f"{module} imports {imported}: {why}"
            for imported in sorted(found)
            if (why := wrong_import(module, imported))
        ]
        if module != "packhouse":
            # A name of `packhouse` itself is imported when it is used.
            imports[module] = {each for each in found if each in paths and each != "packhouse"}
    problems += [f"a circle: {circle}" for circle in circles(imports)]
    makefile = (root.parents[1] / "Makefile").read_text(encoding="utf-8")
    problems += pages_of_nothing(makefile, set(paths))
    if len(paths) < 50:
        problems.append(f"only {len(paths)} modules found below {root}")
    for problem in problems:
        print(problem)
    print(f"{len(paths)} modules checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
