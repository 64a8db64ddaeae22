"""No two files define classes of one name: linked into one program, one's functions run for the other.

The language calls this the one-definition rule; compilers and linkers say nothing. Classes inside
functions, other classes and nameless namespaces are nobody else's.
"""

import collections
import pathlib
import re
import sys

TOKEN = re.compile(
    r"(namespace\s*([\w:]*)\s*\{)"
    r"|\b(?:class|struct)\s+(?:alignas\([^)]*\)\s+)?(\w+)(::\w+)*(?:\s+final)?\s*(?::[^;{=()]*)?\{"
    r"|\{|\}"
)


def classes_of(text: str) -> set[str]:
    """Names, with their namespaces, of the classes that a file defines for all."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"'(\\.|[^'\\\n])'", "''", text)
    around: list[str] = []  # Empty: what it has inside is its own.
    found = set()
    for token in TOKEN.finditer(text):
        if token.group(0) == "}":
            if around:
                around.pop()
        elif token.group(1):
            around.append(token.group(2))
        elif token.group(3):
            if all(around) and not token.group(4):
                found.add("::".join([*around, token.group(3)]))
            around.append("")
        else:
            around.append("")
    return found


def main() -> None:
    root = pathlib.Path(sys.argv[1])
    files = collections.defaultdict(list)
    for path in sorted((root / "service").rglob("*")):
        if path.suffix in (".h", ".cc"):
            for name in classes_of(path.read_text(encoding="utf-8")):
                files[name].append(str(path.relative_to(root)))
    assert len(files) > 800, f"only {len(files)} classes were found"
    twice = {name: places for name, places in files.items() if len(places) > 1}
    for name, places in sorted(twice.items()):
        print(f"{name} is defined in {' and '.join(places)}")
    sys.exit(bool(twice))


main()
