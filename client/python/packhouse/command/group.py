"""Groups of commands, and the name that was probably meant."""

from __future__ import annotations

from typing import Any, Sequence

import click

from packhouse.command.failures import Misuse


class Group(click.Group):
    """Suggests the command that was probably meant. Of its sub-commands one is needed."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        attributes.setdefault("no_args_is_help", False)
        super().__init__(*arguments, **attributes)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises Misuse for a command that there is not."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            names = self.list_commands(ctx)
            before = ctx.command_path.split()[1:]
            told = " ".join([*before, args[0]])
            near = nearest(args[0], names)
            meant = " ".join([*before, near])
            hint = f"did you mean '{meant}'?" if near else f"there are {', '.join(names)}"
            raise Misuse(f"there is no command '{told}'; {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the sub-command."""
        # Click 8.1 has the name here, later ones there.
        begun = vars(ctx).get("_protected_args") or vars(ctx).get("protected_args")
        if not begun and not ctx.args:
            names = ", ".join(self.list_commands(ctx))
            raise Misuse(f"a subcommand is needed: {names}")
        return super().invoke(ctx)


def nearest(word: str, names: Sequence[str]) -> str:
    """The name that was probably meant: one that begins with the word, or of which at most a third of
    the letters are changed, missing, added, or swapped with the next; "" if none is near.
    """
    least = max(1, len(word) // 3) + 1
    found = ""
    for name in names:
        is_prefix = len(word) > 1 and name.startswith(word)
        distance = 1 if is_prefix else _distance(word, name)
        if distance < least:
            least, found = distance, name
    return found


def _distance(a: str, b: str) -> int:
    """The least number of letters to change, add, remove, or swap with the next, to turn `a` into
    `b`.
    """
    rows = [list(range(len(b) + 1))]
    for i, of_a in enumerate(a, 1):
        row = [i]
        for j, of_b in enumerate(b, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (of_a != of_b))
            if i > 1 and j > 1 and of_a == b[j - 2] and a[i - 2] == of_b:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
