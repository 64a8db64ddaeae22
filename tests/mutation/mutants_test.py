"""The mutation test breaks what it says, and sees what a test sees."""

from __future__ import annotations

import os
import pathlib
import sys

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


def test_every_room_has_tests_further_up() -> None:
    names = {each.name for each in room_tests.all_tests(BUILD)}
    table = room_tests.further_tests(mutants.FURTHER.read_text())
    for path in mutants.sources(mutants.ROOT):
        further = room_tests.further_of(table, room_tests.room_of(path))
        assert names.intersection(further), f"{path}: none of {further} is a test"


def tried(tmp_path: pathlib.Path, mutation: mutations.Mutation) -> mutants.Result:
    """By the room's own tests alone."""
    tests = [each for each in room_tests.all_tests(BUILD) if each.name == "base_test"]
    test = mutants.MutationTest(mutants.ROOT, BUILD, tmp_path, tests)
    return test.tries(mutation)


def test_a_mistake_in_a_real_line_is_caught_and_none_survives(tmp_path: pathlib.Path) -> None:
    path = "service/base/file_name.cc"
    before = '  if (name.empty()) return "%";'
    line = (mutants.ROOT / path).read_text().split("\n").index(before) + 1
    dropped = mutations.Mutation(path, line, mutations.RETURN, before, "  ;")
    assert dropped.after in [each.after for each in mutations.mutations_of_line(mutants.ROOT, path, line)]
    result = tried(tmp_path, dropped)
    assert (result.outcome, result.by) == (mutants.CAUGHT, "base_test")
    nothing = mutations.Mutation(path, line, mutations.RETURN, before, before + " ")
    assert tried(tmp_path, nothing).outcome == mutants.SURVIVED
    no_code = mutations.Mutation(path, line, mutations.RETURN, before, "  if (")
    assert tried(tmp_path, no_code).outcome == mutants.NOT_COMPILED


def test_a_header_is_compiled_with_its_room_and_its_tests() -> None:
    objects = mutants.mutant_builds.MutantBuilds(mutants.ROOT, BUILD, BUILD).objects_of(
        "service/base/file_name.h", "tests/base/"
    )
    assert "packhouse_base.dir" in objects[0]
    assert objects[1].startswith("tests/base/")


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
