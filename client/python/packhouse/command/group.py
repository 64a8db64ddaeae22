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
    """The name that was probably meant: one that begins with the word, or that is much like it; "" if
    none is.
    """
    from difflib import get_close_matches

    begun = [name for name in names if len(word) > 1 and name.startswith(word)]
    return next(iter(begun or get_close_matches(word, names, 1)), "")
