"""The mutation test breaks what it says, and sees what a test sees."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mutants
import mutations
import room_tests

BUILD = pathlib.Path(os.environ["PACKHOUSE_BUILD"])

SAMPLE = """\
#include "sample.h"
// if (a < b) return 1;
absl::Status Sample::Fill(size_t most) {
  PH_RETURN_IF_ERROR(Check(most));
  if (const absl::Status held = Hold(most); !held.ok()) return held;
  if (most == 0) return absl::OkStatus();
  const std::string text = "a < 1";
  rows_.resize(most + 1);
  Call(first,
       second);
  ++count_;
  return absl::OkStatus();
}
"""
PYTHON_SAMPLE = '''\
def fill(rows, most):
    """Fill if most < 3."""
    if most is None:
        raise ValueError("no 3")
    rows.append(most + 1)
    return rows
'''


def changes(path: str, text: str) -> set[tuple[int, str, str]]:
    return {
        (number, kind, after.strip())
        for number, _, found in mutations.mutable_lines(path, text)
        for kind, after in found
    }


def test_mistakes_of_cpp() -> None:
    hold = "if (const absl::Status held = Hold(most); {}) return held;"
    assert changes("sample.cc", SAMPLE) == {
        (4, mutations.ERROR, "static_cast<void>(Check(most));"),
        (5, mutations.ERROR, hold.format("false")),
        (5, mutations.RETURN, ";"),
        (6, mutations.COMPARISON, "if (most != 0) return absl::OkStatus();"),
        (6, mutations.COMPARISON, "if (!(most == 0)) return absl::OkStatus();"),
        (6, mutations.CONSTANT, "if (most == 1) return absl::OkStatus();"),
        (6, mutations.RETURN, ";"),
        (8, mutations.SIGN, "rows_.resize(most - 1);"),
        (8, mutations.CONSTANT, "rows_.resize(most + 2);"),
        (8, mutations.STATEMENT, ";"),
        (11, mutations.STATEMENT, ";"),
    }


def test_mistakes_of_python() -> None:
    assert changes("sample.py", PYTHON_SAMPLE) == {
        (3, mutations.COMPARISON, "if most is not None:"),
        (3, mutations.COMPARISON, "if not (most is None):"),
        (4, mutations.ERROR, "pass"),
        (5, mutations.SIGN, "rows.append(most - 1)"),
        (5, mutations.CONSTANT, "rows.append(most + 2)"),
        (5, mutations.STATEMENT, "pass"),
    }


def test_a_seed_draws_the_same_lines_after_others_have_changed(tmp_path: pathlib.Path) -> None:
    def drawn(text: str, seed: str) -> list[tuple[str, str]]:
        (tmp_path / "sample.cc").write_text(text)
        return [(each.before, each.after) for each in mutations.drawn(tmp_path, ["sample.cc"], seed)]

    first = drawn(SAMPLE, "1")
    assert len(first) == 5
    moved = drawn(SAMPLE.replace("  ++count_;\n", "\n\n  Swap(&a);\n"), "1")
    assert [each for each in moved if "Swap" not in each[0]] == [each for each in first if "count" not in each[0]]
    assert any(drawn(SAMPLE, str(seed)) != first for seed in range(2, 12))


def test_a_mutation_is_one_line() -> None:
    for _, line, found in mutations.mutable_lines("sample.cc", SAMPLE):
        number = SAMPLE.split("\n").index(line) + 1
        for kind, after in found:
            text = mutations.Mutation("sample.cc", number, kind, line, after).applied_to(SAMPLE)
            different = [i for i, (a, b) in enumerate(zip(SAMPLE.split("\n"), text.split("\n"), strict=True), 1) if a != b]
            assert different == [number]
    with pytest.raises(ValueError, match=r"sample\.cc:1"):
        mutations.Mutation("sample.cc", 1, mutations.STATEMENT, "another", ";").applied_to(SAMPLE)


def test_runs_side_by_side_take_different_rooms(tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "seed-1.jsonl"
    drawn = [
        mutations.Mutation(f"service/{room}/a.cc", line, mutations.SIGN, f"a + {line}", "a", 0)
        for line in range(4)
        for room in ("base", "stores")
    ]

    def write(each: mutations.Mutation) -> None:
        with kept.open("a") as out:
            out.write(json.dumps({**dataclasses.asdict(each), "outcome": mutants.CAUGHT}) + "\n")

    with mutants.next_room(drawn, kept, 6, set()) as (first, of_first):
        assert (first, len(of_first)) == ("base", 3)
        with mutants.next_room(drawn, kept, 6, set()) as (second, of_second):
            assert (second, len(of_second)) == ("stores", 3)
            with mutants.next_room(drawn, kept, 6, set()) as (third, _):
                assert third == ""
            for each in of_second:
                write(each)
        for each in of_first[:2]:
            write(each)
    with mutants.next_room(drawn, kept, 6, set()) as (again, of_again):
        assert (again, of_again) == ("base", of_first[2:])
    with mutants.next_room(drawn, kept, 6, {"base"}) as (left_out, _):
        assert left_out == ""


def test_each_run_has_a_folder_of_its_own(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as one, contextlib.ExitStack() as other:
        assert mutants.own_folder(tmp_path, one) != mutants.own_folder(tmp_path, other)
        one.close()
        assert mutants.own_folder(tmp_path, one).name == "run-1"


def test_every_room_has_tests_further_up() -> None:
    names = {each.name for each in room_tests.all_tests(BUILD)}
    table = room_tests.further_tests(mutants.FURTHER.read_text())
    for path in mutants.sources(mutants.ROOT):
        further = room_tests.further_of_file(table, path)
        assert names.intersection(further), f"{path}: none of {further} is a test"
    for row in table:
        assert not row.startswith("client/python") or (mutants.ROOT / row).is_dir(), row
        assert names.issuperset(table[row]), f"{row}: {set(table[row]) - names} are no tests"


def test_a_file_has_the_tests_of_its_folders_too() -> None:
    table = {"*": ["all"], "client/python": ["whole"], "client/python/packhouse": ["package"], "wire": ["bytes"]}
    table["client/python/packhouse/files"] = ["files"]
    of = {
        "client/python/packhouse/files/npz.py": ["files", "package", "whole"],
        "client/python/packhouse/data/schema.py": ["package", "whole"],
        "service/server/wire/wire_sizes.cc": ["bytes"],
        "service/stores/logs/job_logs.h": ["all"],
    }
    assert {path: room_tests.further_of_file(table, path) for path in of} == of


def test_pytest_is_run_file_by_file() -> None:
    def files(*command: str) -> list[tuple[str, tuple[str, ...]]]:
        return [(each.name, each.command) for each in room_tests.Test("all", command, (), "", None).by_file()]

    two = ("/t/test_a.py", "/t/test_b.py")
    assert files("python3", "-m", "pytest", *two) == [
        ("all/test_a", ("python3", "-m", "pytest", two[0])),
        ("all/test_b", ("python3", "-m", "pytest", two[1])),
    ]
    assert files("python3", "/t/environments.py", "pyg", "--", *two) == [
        ("all/test_a", ("python3", "/t/environments.py", "pyg", "--", two[0])),
        ("all/test_b", ("python3", "/t/environments.py", "pyg", "--", two[1])),
    ]
    for one in (("python3", "-m", "pytest", two[0]), ("python3", "/t/run.py", *two), ("/b/test",)):
        assert files(*one) == [("all", one)]


SWITCHED = """\
  PH_RETURN_IF_ERROR(Check(most));
  if (const absl::Status held = Hold(most); !held.ok()) return held;
  if (a < b && c &&
      d) {
    rows += 2;
    ++count_;
  }
  while (more) return Call(true);
"""


def switched(line: int, after: str) -> str:
    """The lines of SWITCHED that change as a mutation stands in them."""
    text = SWITCHED.split("\n")
    mutation = mutations.Mutation("sample.cc", line, mutations.SIGN, text[line - 1], after)
    changed, placed = mutations.with_switches(SWITCHED, [(mutation, 7)])
    assert len(placed) == 1
    return "\n".join(new for old, new in itertools.zip_longest(text, changed.split("\n")) if old != new)


def test_both_forms_stand_behind_a_switch() -> None:
    is_on = "packhouse_mutant::Is(7)"
    hold = "  if (const absl::Status held = Hold(most); {}) return held;"
    assert switched(1, "  static_cast<void>(Check(most));") == "  PH_MUTANT_RETURN_IF_ERROR(7, Check(most));"
    assert switched(2, hold.format("false")) == hold.format(f"(!held.ok() && !{is_on})")
    assert switched(2, "  ;") == (
        f"  {{ if (const absl::Status held = Hold(most); !held.ok()){{ if (!{is_on}) {{ return held; }} }} }}"
    )
    assert switched(3, "  if (a <= b && c &&") == "  if (a < packhouse_mutant::Less<7>() < b && c &&"
    assert switched(3, "  if (a < b || c &&") == f"  if (({is_on} ? (a < b || c &&       d) : (a < b && c &&\n      d))) {{"
    assert switched(6, "    ;") == f"    {{ {{ if (!{is_on}) {{ ++count_; }} }} }}"
    assert switched(5, "    rows -= 2;") == f"    {{ if ({is_on}) {{ rows -= 2; }} else {{ rows += 2; }} }}"
    assert switched(5, "    rows += 3;") == f"    rows += ({is_on} ? 3 : 2);"
    assert switched(8, "  while (!(more)) return Call(true);") == f"  while ({is_on} != static_cast<bool>(more)) return Call(true);"
    assert switched(8, "  while (more) return Call(false);") == f"  while (more) return Call(({is_on} ? false : true));"


def test_mutations_that_overlap_are_not_both_in() -> None:
    text = SWITCHED.split("\n")
    either = mutations.Mutation("sample.cc", 3, mutations.COMPARISON, text[2], "  if (a < b || c &&")
    further = mutations.Mutation("sample.cc", 3, mutations.COMPARISON, text[2], "  if (a <= b && c &&")
    assert mutations.with_switches(SWITCHED, [(either, 1), (further, 2)])[1] == [(either, 1)]


ASKED = """\
namespace absl {
struct Status {
  bool is_ok = true;
  bool ok() const { return is_ok; }
};
}  // namespace absl

absl::Status Pass(absl::Status status) {
  PH_RETURN_IF_ERROR(status);
  return {};
}

bool Run(int a, absl::Status status) {
  if (a < 3) return true;
  Pass(status);
  if (!status.ok()) return false;
  if (a == 4) return false;
  a = a + 1;
  return a > 0;
}

int main(int count, char** /*words*/) { return Run(count, {count < 6}) ? 0 : 1; }
"""


def test_a_switch_is_asked_only_where_it_would_make_a_difference(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "asked.cc"
    path.write_text(ASKED)
    wanted = {
        "PH_RETURN": mutations.ERROR,
        "if (a < 3)": mutations.COMPARISON,
        "if (!status": mutations.ERROR,
        "if (a == 4)": mutations.RETURN,
        "a = a": mutations.STATEMENT,
        "return a > 0": mutations.COMPARISON,
    }
    drawn = [
        next(each for each in mutations.of_each_line(tmp_path, path.name) if begin in each.before and each.kind == kind)
        for begin, kind in wanted.items()
    ]
    text, placed = mutations.with_switches(ASKED, list(zip(drawn, range(1, 7), strict=True)))
    assert len(placed) == len(wanted)
    here = pathlib.Path(mutants.__file__).parent
    path.write_text(f'#include "{here}/mutant_switch.h"\n{text}')
    program = tmp_path / "asked"
    subprocess.run(["c++", "-std=c++20", path, here / "mutant_switch.cc", "-o", program], check=True)

    def asked(words: int) -> set[int]:
        told = tmp_path / "reached"
        told.write_text("")
        (tmp_path / "reached.test").write_bytes(bytes(4))
        environment = {**os.environ, "PACKHOUSE_MUTANT_REACHED": str(told)}
        subprocess.run([program, *(["word"] * (words - 1))], env=environment, check=False)
        return {int(line.split()[2]) for line in told.read_text().splitlines()}

    assert asked(2) == set()
    assert asked(3) == {2, 5}
    assert asked(4) == {4}
    assert asked(5) == {5}
    assert asked(6) == {1, 3}


def tried(
    tmp_path: pathlib.Path, of_room: list[mutations.Mutation], test: str, files: str = ""
) -> list[tuple[str, str]]:
    """What becomes of mutations by one test alone, and of its files in Python by those of a name."""
    tests = [
        dataclasses.replace(each, command=tuple(word for word in each.command if not word.endswith(".py") or files in word))
        for each in room_tests.all_tests(BUILD)
        if each.name.partition(".")[0] == test and (not files or any(files in word for word in each.command))
    ]
    run = mutants.MutationTest(mutants.ROOT, BUILD, tmp_path, tests)
    results = {each.key(): each for each in run.tries(mutants.building_of(of_room[0].path), of_room)}
    keys = [(each.path, each.before, each.after, each.nth) for each in of_room]
    # On a machine that stands still, what fails may hang before.
    return [(results[key].outcome, results[key].by.removesuffix(" hangs").partition(".")[0]) for key in keys]


def test_of_one_build_each_mutant_is_caught_alone_and_none_survives(tmp_path: pathlib.Path) -> None:
    path = "service/base/file_name.cc"
    text = (mutants.ROOT / path).read_text().split("\n")

    def mutation(before: str, after: str) -> mutations.Mutation:
        return mutations.Mutation(path, text.index(before) + 1, mutations.RETURN, before, after)

    empty = '  if (name.empty()) return "%";'
    dropped = mutation(empty, "  ;")
    assert dropped.after in [each.after for each in mutations.mutations_of_line(mutants.ROOT, path, dropped.line)]
    compiled = "constexpr size_t kDigestBytes = 16;"
    constant = mutation(compiled, compiled.replace("16", "17"))
    # A valid name begins with a whole character, so this is set before it is read.
    set_again = "  size_t begin = 0;  // Of what a long name keeps: whole characters and escapes."
    same = mutation(set_again, set_again.replace("0", "1"))
    assert tried(tmp_path, [dropped, constant, same], "base_test") == [
        (mutants.CAUGHT, "base_test"),
        (mutants.NO_SWITCH, ""),
        (mutants.SURVIVED, ""),
    ]


def test_a_mistake_in_a_module_of_python_is_caught(tmp_path: pathlib.Path) -> None:
    path = "client/python/packhouse/base/arguments.py"
    text = (mutants.ROOT / path).read_text().split("\n")

    def mutation(before: str, after: str) -> mutations.Mutation:
        return mutations.Mutation(path, text.index(before) + 1, mutations.COMPARISON, before, after)

    given = "            if member is not None:"
    swapped = mutation(given, given.replace("is not", "is"))
    listed = "        names = "
    same = next(mutation(line, line + "  # The same.") for line in text if line.startswith(listed))
    assert tried(tmp_path, [swapped, same], "python_tests", "test_choices") == [
        (mutants.CAUGHT, "python_tests"),
        (mutants.SURVIVED, ""),
    ]


def test_a_header_is_compiled_with_its_room_and_its_tests() -> None:
    objects = mutants.mutant_builds.MutantBuilds(mutants.ROOT, BUILD, BUILD).objects_of(
        "service/base/file_name.h", "tests/base/"
    )
    assert "packhouse_base.dir" in objects[0]
    assert objects[1].startswith("tests/base/")


def test_programs_of_one_folder_are_each_linked_anew(tmp_path: pathlib.Path) -> None:
    builds = mutants.mutant_builds.MutantBuilds(mutants.ROOT, BUILD, tmp_path / "work")
    builds.clear()
    linked = [builds.link(f"tests/sampling/{name}", []) for name in ("sampling_test", "sampling_distribution_test")]
    assert not any(each.is_symlink() for each in linked)


def test_an_object_takes_the_place_of_the_build_s(tmp_path: pathlib.Path) -> None:
    def symbols(library: pathlib.Path) -> dict[str, set[str]]:
        told = subprocess.run(["nm", "-A", library], check=True, capture_output=True, text=True).stdout
        members: dict[str, set[str]] = {}
        for line in told.splitlines():
            member, _, symbol = line.removeprefix(f"{library}:").partition(":")
            members.setdefault(member, set()).add(symbol.split()[-1])
        return members

    path = "service/base/file_name.cc"
    text = (mutants.ROOT / path).read_text().split("\n")
    empty = '  if (name.empty()) return "%";'
    dropped = mutations.Mutation(path, text.index(empty) + 1, mutations.RETURN, empty, "  ;")
    builds = mutants.mutant_builds.MutantBuilds(mutants.ROOT, BUILD, tmp_path / "work")
    builds.clear()
    _, objects = builds.compile([(dropped, 1)], "tests/base/")
    built = symbols(BUILD / "service/libpackhouse_base.a")
    changed = symbols(builds.changed_library("service/libpackhouse_base.a", objects))
    assert built.keys() == changed.keys()
    switch = "_ZN16packhouse_mutant6statesE"
    assert [member for member in changed if switch in changed[member]] == [pathlib.Path(objects[0]).name]


def test_a_room_that_cannot_be_built_is_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    caught = mutants.Result("service/base/a.cc", 1, mutations.SIGN, "+", "-", 1, mutants.CAUGHT)

    class Broken:
        def tries(self, *_: object) -> Iterator[mutants.Result]:
            yield caught
            raise mutants.mutant_builds.DoesNotCompile("duplicate symbol")

    undecided: set[str] = set()
    assert list(mutants.tries_or_not(Broken(), "base", [], 0.0, undecided)) == [caught]
    assert undecided == {"base"}
    assert "duplicate symbol" in capsys.readouterr().out


def test_results_are_kept_and_told(tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "seed-1.jsonl"
    kept.write_text(
        '{"path": "service/a/b.cc", "line": 7, "kind": "constant", "before": "x = 1;", "after": "x = 2;", "nth": 1,'
        ' "outcome": "survived"}\n{"path": "service/a'
    )
    (result,) = mutants.read_results(kept)
    told = mutants.table([result])
    assert "service/a/b.cc:7: constant\n-x = 1;\n+x = 2;" in told
    assert [line.split()[-2:] for line in told.splitlines() if line.startswith("all ")] == [["1", "1"]] * 2
