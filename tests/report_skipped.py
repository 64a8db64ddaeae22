"""Says which tests were skipped, and why, as the last line of a test run.

Usage: report_skipped.py JUNIT... : what `ctest --output-junit FILE` wrote, one file a run. A test that
lost the tool or the data that it needs counts as passed for CTest: its program skips it from inside.
This reads the programs' output, GoogleTest's and pytest's (-rs), and prints one line. Exit status 0;
1 if a file cannot be read.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

# pytest -rs: SKIPPED [3] tests/client/cli_test.py:30: etcd is not installed
PYTEST = re.compile(r"^SKIPPED \[(\d+)\] \S+?: (.+)$", re.MULTILINE)
# GoogleTest: FILE:LINE: Skipped, then the reason on the next line.
GTEST = re.compile(r"^\S+:\d+: Skipped\n(.*)$", re.MULTILINE)


def reasons(output: str) -> collections.Counter[str]:
    """How many tests of a program were skipped for which reason."""
    found: collections.Counter[str] = collections.Counter()
    for count, reason in PYTEST.findall(output):
        found[reason.strip()] += int(count)
    for reason in GTEST.findall(output):
        found[reason.strip() or "no reason given"] += 1
    return found


def read(path: pathlib.Path) -> tuple[int, collections.Counter[str]]:
    """The number of CTest's tests in a file, and why tests were skipped."""
    suite = xml.etree.ElementTree.parse(path).getroot()
    cases = suite.findall(".//testcase")
    skipped: collections.Counter[str] = collections.Counter()
    for case in cases:
        found = reasons(case.findtext("system-out") or "")
        if not found and case.find("skipped") is not None:
            found[f"{case.get('name')} was skipped"] += 1
        skipped.update(found)
    return len(cases), skipped


def main() -> int:
    programs = 0
    skipped: collections.Counter[str] = collections.Counter()
    for name in sys.argv[1:]:
        try:
            count, found = read(pathlib.Path(name))
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            print(f"report_skipped: {name}: {error}", file=sys.stderr)
            return 1
        programs += count
        skipped.update(found)
    told = f"{programs} test programs passed"
    if not skipped:
        print(f"{told}; no test was skipped")
        return 0
    listed = "; ".join(f"{reason} ({count})" for reason, count in sorted(skipped.items()))
    print(f"{told}; {sum(skipped.values())} tests in them were skipped: {listed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
