"""What `make size` counts, over a small tree; and that no function of the repository is too long,
nor one of the service and the clients too complex.

Usage: code_size_test.py REPOSITORY. Exit status 1 if something is wrong.
"""

from __future__ import annotations

import pathlib
import sys

import code_size

HEADER = """// A comment.

#pragma once
namespace packhouse {
/* of two
   lines */
class One final : public Base<int> {
 public:
  struct Inside {
    int a = 1;
  };
  int Size() const { return {}; }
};
template <typename T>
struct [[nodiscard]] Two {
  T value;
};
enum class Three { kA, kB };
struct OnlyNamed;
inline constexpr char kText[] = "{ // no comment";
}  // namespace packhouse
"""
USES = '#include "service/base/one.h"\n'
FILES = {
    "service/base/one.h": HEADER,
    "service/base/one.cc": USES,
    "service/access/user.cc": USES + "\nint F(struct A* a) {\n  return 1;  // why\n}\n",
    "service/access/long.cc": "int G() {\n" + "  Call();\n" * 99 + "}\n",
    "service/access/short.cc": "int H() {\n" + "  Call();\n" * 98 + "}\n",
    "service/base/raw.cc": 'char* k = R"(\n// in a string {\n)";\nchar q = \'"\'; int m = 1\'000;\n',
    "client/python/packhouse/base/a.py": (
        '"""Of\n\ntwo."""\n\n# c\ndef f():\n    """g"""\n    return """a\nb"""\n'
    ),
    "tests/base/one_test.cc": USES + "TEST(A, B) {}\n",
    "tests/benchmarks/a.py": "x = 1\n",
    "docs/a.py": "x = 1\n",
}
DECISIONS = {
    "service/base/26.cc": (
        "int J(T&& a) {\n  do {\n"
        + "    if (a && (b ||\n c)) x ? y : z;\n" * 5
        + "    for (;;) switch (d) { case 1: try {} catch (E&&) {} default:; }\n"
        "  } while (e && !f);\n}\n"
    ),
    "service/base/25.cc": "int K() {\n" + "  if (a) b = [](X&& c) { return '?'; };\n" * 24 + "}\n",
    "client/python/packhouse/base/26.py": (
        "def f(a):\n  def g(b):\n"
        + "    x = [c for c in b if c] if b and a and c else 1\n" * 5
        + "  while a:\n    pass\n"
    ),
}


def main() -> int:
    rows = code_size.count(FILES)
    expected = {
        # A header with one user: one.cc is its own, tests are no users.
        "service/base": (17 + 1 + 4, 3, 1, []),
        "service/access": (4 + 201, 0, 0, ["service/access/long.cc: int G()"]),
        "service": (227, 3, 1, ["service/access/long.cc: int G()"]),
        "client/python/base": (3, 0, 0, []),
        "tests": (2, 0, 0, []),
        "tests/bench": (1, 0, 0, []),
    }
    wrong = 0
    for name, (lines, types, one_user, long) in expected.items():
        row = rows[name]
        found = (row.lines, row.types, row.one_user, [each.place for each in row.long])
        if found != (lines, types, one_user, long):
            print(f"{name}: {found}, not {(lines, types, one_user, long)}")
            wrong += 1
    told = "\n".join(code_size.table(rows))
    if "functions above 100 lines" not in told or "       1 of      0  above" not in told:
        print(told)
        wrong += 1
    complex_ones = [(each.place, each.complexity) for each in code_size.count(DECISIONS)["all"].complex]
    if complex_ones != [
        ("service/base/26.cc: int J(T&& a)", 26),
        ("client/python/packhouse/base/26.py: f", 27),
        ("client/python/packhouse/base/26.py: g", 26),
    ]:
        print(complex_ones)
        wrong += 1
    rows = code_size.count(code_size.read_files(pathlib.Path(sys.argv[1])))
    for each in rows["all"].long:
        print(f"{each.place}: {each.lines} lines, at most {code_size.LONG}: split it")
        wrong += 1
    for each in rows["service"].complex + rows["client"].complex:
        print(f"{each.place}: complexity {each.complexity}, at most {code_size.COMPLEX}: split it")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
