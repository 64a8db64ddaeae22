"""Which lines of a source can be broken, and how: one small mistake that somebody could make.

Text is enough: what does not compile is thrown away. Comments, strings and directives stay as they are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator
from typing import Final

ERROR: Final = "error dropped"
STATEMENT: Final = "statement dropped"
COMPARISON: Final = "comparison or condition"
CONSTANT: Final = "constant"
SIGN: Final = "sign or operator"
RETURN: Final = "early end dropped"
KINDS: Final = (ERROR, STATEMENT, COMPARISON, CONSTANT, SIGN, RETURN)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One line of one file as it would be if somebody had made a mistake there."""

    path: str  # In the repository.
    line: int  # From 1.
    kind: str
    before: str
    after: str
    nth: int = 1  # Of the lines of that text in the file.

    def applied_to(self, text: str) -> str:
        """The file's text with the mistake in it."""
        lines = text.split("\n")
        if lines[self.line - 1] != self.before:
            raise ValueError(f"{self.path}:{self.line} is not {self.before!r}")
        lines[self.line - 1] = self.after
        return "\n".join(lines)


Changes = list[tuple[str, str]]

_CPP_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![0-9A-Fa-f])\'(?:[^\'\\]|\\.)\'')
_CPP_SKIPPED = re.compile(
    r"\s*(?:#|//|\*|/\*|static_assert|using |namespace |template|friend |typedef |case |extern |EXPECT_|ABSL_)"
    r"|.*\boperator\b"
)
_SWAPS: Final = (
    (re.compile(r" < "), " <= ", COMPARISON),
    (re.compile(r" <= "), " < ", COMPARISON),
    (re.compile(r" > "), " >= ", COMPARISON),
    (re.compile(r" >= "), " > ", COMPARISON),
    (re.compile(r" == "), " != ", COMPARISON),
    (re.compile(r" != "), " == ", COMPARISON),
    (re.compile(r" \+ "), " - ", SIGN),
    (re.compile(r" - "), " + ", SIGN),
    (re.compile(r" \+= "), " -= ", SIGN),
    (re.compile(r" -= "), " += ", SIGN),
    (re.compile(r" \* "), " + ", SIGN),
    (re.compile(r" / "), " * ", SIGN),
    (re.compile(r" % "), " / ", SIGN),
)
_CPP_SWAPS: Final = (
    (re.compile(r" && "), " || ", COMPARISON),
    (re.compile(r" \|\| "), " && ", COMPARISON),
    (re.compile(r"\btrue\b"), "false", CONSTANT),
    (re.compile(r"\bfalse\b"), "true", CONSTANT),
)
_PYTHON_SWAPS: Final = (
    (re.compile(r" and "), " or ", COMPARISON),
    (re.compile(r" or "), " and ", COMPARISON),
    (re.compile(r" is not "), " is ", COMPARISON),
    (re.compile(r" is (?!not )"), " is not ", COMPARISON),
    (re.compile(r" not in "), " in ", COMPARISON),
    (re.compile(r" // "), " * ", SIGN),
    (re.compile(r"\bTrue\b"), "False", CONSTANT),
    (re.compile(r"\bFalse\b"), "True", CONSTANT),
)
_NUMBER = re.compile(r"(?<![\w.'])\d+(?![\w.'])")
_CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while) \()(?!const |auto |absl::Status )([^;]*)(\)(?: \{| return.*;| continue;| break;)?)$")
_CPP_CALL = re.compile(r"^(?:[\w:.\[\]]|->|\(\)|\(\*\w+\))+(?:<[\w:, ]+>)?\(.*\);$")
_CPP_ASSIGNMENT = re.compile(r"^\*?[\w.\[\]>\-]+(?:\(\))?(?:->|\.)?[\w.\[\]]* (?:=|\+=|-=|\|=|&=|\*=) .*;$")
_CPP_STEP = re.compile(r"^(?:\+\+|--)[\w.\->\[\]*()]+;$")
_CPP_ENDED = re.compile(r"(?:[;{}:]|^\s*(?:if|for|while) \(.*\)|else)$")
_NOT_OK = re.compile(r"!\(?\*?[\w.\->]+(?:\(\))?(?:\.|->)ok\(\)")
_CPP_EARLY = re.compile(r"^(?:if \(.*\) )?(?:return\b.*|continue|break);$")


def _without_strings(line: str) -> str:
    """The line with strings and a comment at its end blanked, as long as before."""
    line = _CPP_STRING.sub(lambda found: found[0][0] + "~" * (len(found[0]) - 2) + found[0][-1], line)
    begin = line.find("//")
    return line if begin < 0 else line[:begin] + " " * (len(line) - begin)


def _swapped(line: str, masked: str, swaps: tuple[tuple[re.Pattern[str], str, str], ...]) -> Iterator[tuple[str, str]]:
    for pattern, other, kind in swaps:
        for found in pattern.finditer(masked):
            yield kind, line[: found.start()] + other + line[found.end() :]
    for found in _NUMBER.finditer(masked):
        yield CONSTANT, line[: found.start()] + str(int(found[0]) + 1) + line[found.end() :]


def _is_balanced(text: str) -> bool:
    return all(text.count(opening) == text.count(closing) for opening, closing in ("()", "[]", "{}"))


def _cpp_changes(line: str, masked: str, before: str, is_header: bool) -> Iterator[tuple[str, str]]:
    code = masked.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if "PH_RETURN_IF_ERROR(" in masked:
        yield ERROR, line.replace("PH_RETURN_IF_ERROR(", "static_cast<void>(", 1)
        return
    for found in _NOT_OK.finditer(masked):
        if re.match(r"(?:\} else )?if \(", code):
            yield ERROR, line[: found.start()] + "false" + line[found.end() :]
    if "PH_ASSIGN_OR_RETURN(" not in masked:
        yield from _swapped(line, masked, _SWAPS + _CPP_SWAPS)
    elif masked.endswith(";"):
        yield from _swapped(line, masked, _SWAPS)
    condition = _CONDITION.match(masked.rstrip())
    if condition is not None and _is_balanced(condition[2]) and not _NOT_OK.search(condition[2]):
        inner = line[condition.start(2) : condition.end(2)]
        yield COMPARISON, f"{condition[1]}!({inner}){line[condition.end(2) :]}"
    # In a header, what is less deep is a declaration.
    if is_header and len(indent) < 4 or not _is_balanced(code) or not _CPP_ENDED.search(before):
        return
    if _CPP_EARLY.match(code) and (code.startswith("if ") or not code.startswith("return")):
        yield (ERROR if re.search(r"return .*(?:Error\(|status\(\))", code) else RETURN), indent + ";"
    elif not code.startswith(("return", "delete", "else", "if ", "for ", "while ", "PH_")) and (
        _CPP_CALL.match(code) or _CPP_ASSIGNMENT.match(code) or _CPP_STEP.match(code)
    ):
        yield STATEMENT, indent + ";"


def _cpp(text: str, path: str) -> Iterator[tuple[int, str, Changes]]:
    before = ";"
    is_raw = False
    for number, line in enumerate(text.split("\n"), 1):
        if is_raw or 'R"' in line:
            is_raw = (is_raw or 'R"' in line) and not re.search(r'\)\w*"', line)
            before = ";"
            continue
        masked = _without_strings(line)
        if not masked.strip():
            continue
        if not _CPP_SKIPPED.match(line):
            changes = list(_cpp_changes(line, masked, before, path.endswith(".h")))
            if changes:
                yield number, line, changes
        before = masked.rstrip()


def _python_masks(text: str) -> list[str]:
    """The lines without strings and comments, which are blanked."""
    lines = [list(line) for line in text.split("\n")]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.STRING, tokenize.COMMENT):
            continue
        for row in range(token.start[0], token.end[0] + 1):
            begin = token.start[1] if row == token.start[0] else 0
            end = token.end[1] if row == token.end[0] else len(lines[row - 1])
            blank = "~" if token.type == tokenize.STRING else " "
            lines[row - 1][begin:end] = blank * (end - begin)
    return ["".join(line) for line in lines]


_PYTHON_CALL = re.compile(r"^(?:await )?(?:[\w.]|\[[^\]]*\]|\(\))+\(.*\)$")
_PYTHON_ASSIGNMENT = re.compile(r"^[\w.]+(?:\[.*\])? (?:=|\+=|-=|\|=) .+$")
_PYTHON_SKIPPED = re.compile(r"\s*(?:import |from |def |class |@|async def |assert |global |nonlocal )")


def _python(text: str) -> Iterator[tuple[int, str, Changes]]:
    is_whole = True  # The line begins a statement.
    depth = 0
    for number, (line, masked) in enumerate(zip(text.split("\n"), _python_masks(text), strict=True), 1):
        code = masked.strip()
        begins, is_whole = is_whole, True
        depth += sum(code.count(each) for each in "([{") - sum(code.count(each) for each in ")]}")
        is_whole = depth == 0
        if not code or not code.strip("~ ") or _PYTHON_SKIPPED.match(masked):
            continue
        changes = list(_swapped(line, masked, _SWAPS + _PYTHON_SWAPS)) if "->" not in code else []
        indent = line[: len(line) - len(line.lstrip())]
        condition = re.match(r"^(\s*(?:el)?if |\s*while )(.*):$", masked)
        if condition is not None and begins and is_whole:
            changes.append((COMPARISON, f"{condition[1]}not ({line[condition.start(2) : condition.end(2)]}):"))
        if indent and begins and is_whole:
            if code.startswith("raise"):
                changes.append((ERROR, indent + "pass"))
            elif code in ("break", "continue", "return"):
                changes.append((RETURN, indent + "pass"))
            elif _PYTHON_CALL.match(code) or _PYTHON_ASSIGNMENT.match(code):
                changes.append((STATEMENT, indent + "pass"))
        if changes:
            yield number, line, changes


def mutable_lines(path: str, text: str) -> Iterator[tuple[int, str, Changes]]:
    """The lines of a file that can be changed: number, text, and (kind, changed text) of each way."""
    return _python(text) if path.endswith(".py") else _cpp(text, path)


def _draw(seed: str, *words: str) -> bytes:
    return hashlib.sha256("\0".join((seed, *words)).encode()).digest()


def drawn(root: pathlib.Path, paths: list[str], seed: str) -> list[Mutation]:
    """All lines of the files in an order that the seed draws, one mutation each.

    A line keeps its place and its mutation as others change: the order is one of the lines' own texts.
    """
    found: list[tuple[bytes, Mutation]] = []
    for path in paths:
        times: dict[str, int] = {}
        for number, line, changes in mutable_lines(path, (root / path).read_text()):
            times[line] = times.get(line, 0) + 1
            place = _draw(seed, path, line, str(times[line]))
            # Kinds have equal chances; a line with ten numbers is not a constant ten times.
            kinds = [kind for kind in KINDS if any(kind == each for each, _ in changes)]
            kind = kinds[place[8] % len(kinds)]
            of_kind = [after for each, after in changes if each == kind]
            after = of_kind[place[9] % len(of_kind)]
            found.append((place, Mutation(path, number, kind, line, after, times[line])))
    return [mutation for _, mutation in sorted(found, key=lambda each: each[0])]


_OPERATORS: Final = {
    " < ": "Less",
    " <= ": "LessOrEqual",
    " > ": "Greater",
    " >= ": "GreaterOrEqual",
    " == ": "Equal",
    " != ": "NotEqual",
    " + ": "Plus",
    " - ": "Minus",
    " * ": "Times",
    " / ": "Over",
    " % ": "Modulo",
}
_STOPS_BEFORE: Final = re.compile(r"(?: = |\breturn |[,;?{] ?| : )$")


def _around(masked: str, at: int) -> tuple[int, int] | None:
    """Begin and end of the whole expression that an operator of the lowest rank is in."""
    depth = 0
    begin = at
    while True:
        if begin == 0:
            return None
        each = masked[begin - 1]
        depth += (each in ")]}") - (each in "([{")
        if depth < 0 or depth == 0 and _STOPS_BEFORE.search(masked[max(0, begin - 8) : begin]):
            break
        begin -= 1
    depth = 0
    end = at
    while end < len(masked):
        each = masked[end]
        depth += (each in "([{") - (each in ")]}")
        if depth < 0 or depth == 0 and (each in ",;?" or masked[end : end + 3] == " : "):
            return begin, end
        end += 1
    return None


def _with_switch(text: str, begin: int, mutation: Mutation, number: int) -> tuple[int, int, str] | None:
    """What to put where in a C++ text, so that the mutation can be switched on. `begin` is that of its line."""
    before, after = mutation.before, mutation.after
    end = begin + len(before)
    is_on = f"packhouse_mutant::Is({number})"
    if after.strip() == ";":
        indent = before[: len(before) - len(before.lstrip())]
        code = _without_strings(before).rstrip()
        head = _head_of_if(code)
        return begin, end, f"{indent}{{ {before[len(indent) : head]}{{ if (!{is_on}) {{ {before[head : len(code)].strip()} }} }} }}"
    if "PH_RETURN_IF_ERROR(" in before and "static_cast<void>(" in after:
        return begin, end, before.replace("PH_RETURN_IF_ERROR(", f"PH_MUTANT_RETURN_IF_ERROR({number}, ", 1)
    masked = _without_strings(before)
    for found in _NOT_OK.finditer(masked):
        if after == before[: found.start()] + "false" + before[found.end() :]:
            return begin + found.start(), begin + found.end(), f"({found[0]} && !{is_on})"
    for found in _NUMBER.finditer(masked):
        if after == before[: found.start()] + str(int(found[0]) + 1) + before[found.end() :]:
            return begin + found.start(), begin + found.end(), f"({is_on} ? {int(found[0]) + 1} : {found[0]})"
    for pattern, other, _ in _SWAPS + _CPP_SWAPS:
        for found in pattern.finditer(masked):
            if after != before[: found.start()] + other + before[found.end() :]:
                continue
            old = found[0]
            if old in ("true", "false"):
                return begin + found.start(), begin + found.end(), f"({is_on} ? {other} : {old})"
            if old in _OPERATORS:
                switch = f"{old}packhouse_mutant::{_OPERATORS[old]}<{number}>(){old}"
                return begin + found.start(), begin + found.end(), switch
            if old in (" += ", " -= "):
                indent = before[: len(before) - len(before.lstrip())]
                return begin, end, f"{indent}{{ if ({is_on}) {{ {after.strip()} }} else {{ {before.strip()} }} }}"
            whole = "\n".join(_without_strings(each) for each in text.split("\n"))
            around = _around(whole, begin + found.start())
            if around is None:
                return None
            first, last = around
            old_form = text[first:last]
            new_form = text[first : begin + found.start()] + other + text[begin + found.end() : last]
            # One line as before, so that numbers of lines stay.
            one_line = " ".join(_uncommented(each) for each in new_form.split("\n"))
            return first, last, f"({is_on} ? ({one_line}) : ({old_form}))"
    condition = _CONDITION.match(masked.rstrip())
    if condition is not None:
        inner = before[condition.start(2) : condition.end(2)]
        if after == f"{condition[1]}!({inner}){before[condition.end(2) :]}":
            return begin + condition.start(2), begin + condition.end(2), f"{is_on} != static_cast<bool>({inner})"
    return None


def _head_of_if(code: str) -> int:
    """Where what follows `if (...)` begins; where the line's code does if it is no such line."""
    begin = len(code) - len(code.lstrip())
    if not code[begin:].startswith("if ("):
        return begin
    depth = 0
    for at in range(begin, len(code)):
        depth += (code[at] == "(") - (code[at] == ")")
        if depth == 0 and code[at] == ")":
            return at + 1
    return begin


def _uncommented(line: str) -> str:
    return line[: len(_without_strings(line).rstrip())]


def with_switches(text: str, numbered: list[tuple[Mutation, int]]) -> tuple[str, list[tuple[Mutation, int]]]:
    """A C++ text with all mutations of the list in it, each switched on by its number, and which of them are in it.

    Lines keep their numbers. Not in it are those of which no form can be switched, or that another one overlaps.
    """
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    edits: list[tuple[int, int, str]] = []
    placed = []
    for mutation, number in numbered:
        mutation.applied_to(text)  # The line is there.
        edit = _with_switch(text, begins[mutation.line - 1], mutation, number)
        if edit is None or any(edit[0] < end and begin < edit[1] for begin, end, _ in edits):
            continue
        edits.append(edit)
        placed.append((mutation, number))
    for begin, end, switch in sorted(edits, reverse=True):
        text = text[:begin] + switch + text[end:]
    return text, placed


def of_each_line(root: pathlib.Path, path: str) -> list[Mutation]:
    """Every mutation of a file, by line; of each line first those that take something away."""
    return [
        Mutation(path, number, kind, line, after)
        for number, line, changes in mutable_lines(path, (root / path).read_text())
        for kind, after in sorted(changes, key=lambda each: (ERROR, RETURN, STATEMENT, COMPARISON, SIGN, CONSTANT).index(each[0]))
    ]


def mutations_of_line(root: pathlib.Path, path: str, number: int) -> list[Mutation]:
    """Every mutation of one line."""
    return [
        Mutation(path, number, kind, line, after)
        for each, line, changes in mutable_lines(path, (root / path).read_text())
        if each == number
        for kind, after in changes
    ]
