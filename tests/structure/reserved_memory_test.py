"""Compares the table of what reserves memory, reserved_memory.md, with the code and the tests.

Each file that holds bytes of a memory budget has a row, no other file has one, and each test that a
row names is there.

Usage: reserved_memory_test.py REPOSITORY. Exit status 1 if something is wrong, or if the check fails
to find what it is given.
"""

import pathlib
import re
import sys

ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
HOLDS = re.compile(r"(?:\.|->)Hold\(")
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", re.MULTILINE)
# They are what others reserve with.
MEANS = {"base/memory_budget.cc", "base/memory_budget.h", "engine/epochs/making.h"}


def problems(page: str, holders: set[str], tests: set[str]) -> list[str]:
    rows = dict(ROW.findall(page))
    if not rows or not holders or not tests:
        return ["no rows, no files that hold memory, or no tests are found"]
    found = [f"{file}: holds memory, and has no row" for file in holders - rows.keys()]
    found += [f"{file}: has a row, and holds no memory" for file in rows.keys() - holders]
    for file, cell in rows.items():
        named = re.findall(r"`(\w+\.\w+)`", cell)
        found += [f"{file}: there is no test {name}" for name in named if name not in tests]
        if not named:
            found.append(f"{file}: names no test")
    return sorted(found)


def check_the_check() -> None:
    page = "# Title\n| `a.cc` | b | `T.X` |\n| `c.cc` | d | `T.X`, `T.Y` |\n| `f.cc` | g | none |\n"
    assert problems(page, {"a.cc", "c.cc", "f.cc"}, {"T.X", "T.Y"}) == ["f.cc: names no test"]
    assert problems(page, {"a.cc", "e.cc", "f.cc"}, {"T.X"}) == [
        "c.cc: has a row, and holds no memory",
        "c.cc: there is no test T.Y",
        "e.cc: holds memory, and has no row",
        "f.cc: names no test",
    ]


def main() -> int:
    check_the_check()
    root = pathlib.Path(sys.argv[1])
    service = root / "service"
    holders = {
        str(path.relative_to(service))
        for ending in ("*.cc", "*.h")
        for path in service.rglob(ending)
        if HOLDS.search(path.read_text())
    } - MEANS
    tests = {
        ".".join(names)
        for path in (root / "tests").rglob("*_test.cc")
        for names in TEST.findall(path.read_text())
    }
    found = problems((root / "tests/structure/reserved_memory.md").read_text(), holders, tests)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
