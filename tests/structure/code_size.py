"""Counts the code of this repository by floor, and prints the counts beside the goals.

Lines are those with code: no blank lines, no comments, no docstrings. A type in a header is a class,
struct, union or enum that is defined there, not inside another. A header has one user if one file
alone includes it, besides the file of its own name and tests. A function's lines are those with code,
from its name to its closing brace; a test is a function too. Its complexity is 1 and its decisions: each
`if`, loop, `case`, `catch`, `?` and `&&` or `||` of C++, and what stands for these in Python, where each
`for` and `if` of a comprehension counts; functions inside it are a part of it, macros are none.
Generated code, protos, build files and data are left out. Of the pages in docs/ the words are counted, what
has a letter or a digit.

Usage: code_size.py REPOSITORY [--functions], which lists the functions above 100 lines or complexity 25
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import pathlib
import re
import tokenize
from typing import Iterable, Iterator, NamedTuple

SERVICE = ("base", "access", "algorithms", "stores", "engine", "server", "wings", "program")
CPP, PYTHON, OTHERS = {".cc", ".h", ".c"}, {".py"}, {".ts", ".css", ".html", ".sh"}
LONG, COMPLEX = 100, 25
# A row of the table, a count, and the most of it; types are for each 1,000 lines.
GOALS = (
    ("service", "lines", 86_000),
    ("service/wings", "lines", 36_000),
    ("tests", "lines", 80_000),
    ("tests/bench", "lines", 5_500),
    ("service", "types in headers for each 1,000 lines", 7.5),
    ("service", "headers with one user", 80),
    ("all", f"functions above {LONG} lines", 0),
    ("all", f"functions above complexity {COMPLEX}", 0),
    ("docs", "words", 38_000),
)

_NO_CODE = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
    r"|//[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_ACCESS = re.compile(r"^(?:\s*(?:public|private|protected)\s*:)+")
_NAMESPACE = re.compile(r"\bnamespace\b[^()]*$|\bextern \"\"\s*$")
# As clang-format writes them: what a reference to a value that goes has is no operator.
_DECISION = re.compile(r"\b(?:if|for|while|case|catch)\b|\s(?:&&|\|\|)\s|\?")
_DECISIONS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
_TYPE = re.compile(
    r"(?:^|[>;\s])(?:class|struct|union|enum)\s(?:[^()=]|\((?:[^()]|\([^()]*\))*\))*$"
)


class Function(NamedTuple):
    place: str
    lines: int
    complexity: int


class Count(NamedTuple):
    lines: int = 0  # Of docs: words.
    types: int = 0
    one_user: int = 0
    large: tuple[Function, ...] = ()  # Above one of the bounds.

    @property
    def long(self) -> list[Function]:
        return [each for each in self.large if each.lines > LONG]

    @property
    def complex(self) -> list[Function]:
        return [each for each in self.large if each.complexity > COMPLEX]

    def plus(self, other: Count) -> Count:
        return Count(
            self.lines + other.lines,
            self.types + other.types,
            self.one_user + other.one_user,
            self.large + other.large,
        )


def code_of(text: str) -> str:
    """Without comments and without what strings hold; lines stay where they are."""

    def instead(found: re.Match[str]) -> str:
        if found[0].startswith("/"):
            return "\n" * found[0].count("\n")
        return '"' + "x\n" * found[0].count("\n") + '"'

    return _NO_CODE.sub(instead, text)


def lines_in(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())


def bodies(code: str) -> Iterator[tuple[str, str]]:
    """("type", its words) and ("function", its text) of C++ without comments; no types in types."""
    code = _DIRECTIVE.sub("", code)
    begin, depth, start = 0, 0, None  # `start` and `depth`: of the function that is open
    scopes: list[str] = []
    for found in re.finditer(r"[{};]", code):
        if start is not None:
            depth += {"{": 1, "}": -1, ";": 0}[found[0]]
            if depth == 0:
                yield "function", code[start : found.end()]
                start, begin = None, found.end()
            continue
        words = _ACCESS.sub("", code[begin : found.start()])
        if found[0] == "{" and _NAMESPACE.search(words):
            scopes.append("namespace")
        elif found[0] == "{" and _TYPE.search(words):
            if "type" not in scopes:
                yield "type", words.strip()
            scopes.append("type")
        elif found[0] == "{":  # A function, or a value in braces.
            start, depth = found.start() - len(words.lstrip()), 1
            continue
        elif found[0] == "}" and scopes:
            scopes.pop()
        begin = found.end()


def python_complexity(function: ast.AST) -> int:
    nodes = list(ast.walk(function))
    lists = [node for node in nodes if isinstance(node, ast.comprehension)]
    chains = [node for node in nodes if isinstance(node, ast.BoolOp)]
    return (
        1
        + sum(isinstance(node, _DECISIONS) for node in nodes)
        + sum(1 + len(each.ifs) for each in lists)
        + sum(len(each.values) - 1 for each in chains)
    )


def large_ones(place: str, functions: Iterable[tuple[str, int, int]]) -> tuple[Function, ...]:
    return tuple(
        Function(f"{place}: {name}", lines, complexity)
        for name, lines, complexity in functions
        if lines > LONG or complexity > COMPLEX
    )


def python_count(place: str, text: str) -> Count:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    functions = []
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
            lines.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append((node, range(node.lineno, (node.end_lineno or 0) + 1)))
    sized = (
        (node.name, len(lines.intersection(own)), python_complexity(node)) for node, own in functions
    )
    return Count(len(lines), large=large_ones(place, sized))


def cpp_count(place: str, text: str) -> Count:
    code = code_of(text)
    found = list(bodies(code))
    types = sum(kind == "type" for kind, _ in found) if place.endswith(".h") else 0
    sized = (
        (" ".join(body.split("{")[0].split())[:80], lines_in(body), 1 + len(_DECISION.findall(body)))
        for kind, body in found
        if kind == "function"
    )
    return Count(lines_in(code), types, large=large_ones(place, sized))


def row_of(path: str) -> str | None:
    """The row of the table in which a file counts; None if it is not counted."""
    parts = path.split("/")
    if parts[0] == "service":
        return "/".join(parts[:2]) if len(parts) > 2 else "service/program"
    if parts[0] == "client":
        python = len(parts) > 4 and parts[1:3] == ["python", "packhouse"]
        return f"client/python/{parts[3]}" if python else "/".join(parts[:2])
    bench = parts[0] == "tests" and len(parts) > 2 and parts[1] in ("bench", "benchmarks")
    return "tests/bench" if bench else parts[0] if parts[0] in ("tests", "deploy") else None


def count(files: dict[str, str]) -> dict[str, Count]:
    """Rows, and their sums `service`, `client` and `all`, of files' texts by path."""
    users: dict[str, set[str]] = collections.defaultdict(set)
    for path, text in files.items():
        if not path.startswith("tests/"):
            for header in _INCLUDE.findall(text):
                if header.rsplit(".", 1)[0] != path.rsplit(".", 1)[0]:
                    users[header].add(path)
    rows: dict[str, Count] = collections.defaultdict(Count)
    for path, text in files.items():
        row, ending = row_of(path), pathlib.Path(path).suffix
        if row is None:
            continue
        if ending in PYTHON:
            found = python_count(path, text)
        elif ending in CPP:
            one_user = int(ending == ".h" and len(users[path]) == 1)
            found = cpp_count(path, text)._replace(one_user=one_user)
        elif ending in OTHERS:
            found = Count(lines_in(code_of(text) if ending in (".ts", ".css") else text))
        else:
            continue
        sums = {row.split("/")[0]} if row.startswith(("service", "client")) else set()
        for each in {row, "all"} | sums:
            rows[each] = rows[each].plus(found)
    return rows


def place_in_table(row: str) -> tuple[object, ...]:
    top, _, floor = row.partition("/")
    return (row == "all", top, SERVICE.index(floor) if floor in SERVICE else -1, floor)


def table(rows: dict[str, Count]) -> Iterator[str]:
    yield f"{'':24} {'lines':>8} {'types':>6} {'per 1,000':>9} {'one user':>8} {'long':>5}"
    for name in sorted(rows.keys() - {"docs"}, key=place_in_table):
        row = rows[name]
        rate = f"{1000 * row.types / row.lines:.1f}" if row.types else ""
        counts = f"{row.types or '':>6} {rate:>9} {row.one_user or '':>8} {len(row.long) or '':>5}"
        yield f"{name:24} {row.lines:>8,} {counts}".rstrip()
    yield "\ngoals"
    for name, what, most in GOALS:
        row = rows.get(name, Count())
        value = {
            "lines": row.lines,
            "words": row.lines,
            "types": round(1000 * row.types / max(row.lines, 1), 1),
            "headers": row.one_user,
            "functions": len(row.complex if "complexity" in what else row.long),
        }[what.split()[0]]
        above = "  above" if value > most else ""
        yield f"{f'{name}: {what}':56} {value:>8,} of {most:>6,}{above}"


def read_files(root: pathlib.Path) -> dict[str, str]:
    """Texts by path of all that is counted but the pages in docs/."""
    files = {}
    for top in ("service", "client", "tests", "deploy"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in CPP | PYTHON | OTHERS and "packhouse/v1" not in path.as_posix():
                files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description="The code of this repository by floor")
    parser.add_argument("repository", type=pathlib.Path)
    parser.add_argument("--functions", action="store_true", help="list those above a bound")
    arguments = parser.parse_args()
    root = arguments.repository
    rows = count(read_files(root))
    pages = (path.read_text(encoding="utf-8") for path in (root / "docs").rglob("*.md"))
    rows["docs"] = Count(sum(len(re.findall(r"\S*\w\S*", page)) for page in pages))
    print("\n".join(table(rows)))
    if arguments.functions:
        for each in sorted(rows["all"].large, key=lambda function: -function.complexity):
            print(f"{each.lines:5} lines, complexity {each.complexity:3}: {each.place}")


if __name__ == "__main__":
    main()
