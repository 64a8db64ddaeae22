"""What is public is explained where it is, without the protos, which a wheel does not have."""

from __future__ import annotations

import inspect
import re
from typing import Any, Iterator

import pytest

import packhouse

# Said for programmers of other clients: what makes and reads messages.
MESSAGES = re.compile(r"(to|from)_(proto|responses|parts)|of(_parts|_loaded_parts)?")


def public_things() -> Iterator[tuple[str, Any]]:
    for name in packhouse.__all__:
        thing = getattr(packhouse, name)
        if not callable(thing):
            continue
        yield name, thing
        if inspect.isclass(thing):
            for member_name, member in vars(thing).items():
                member = getattr(member, "__func__", member)
                is_said = inspect.isfunction(member) or isinstance(member, property)
                if is_said and not member_name.startswith("_") and not MESSAGES.fullmatch(member_name):
                    yield f"{name}.{member_name}", member


@pytest.mark.parametrize(("name", "thing"), list(public_things()))
def test_what_is_public_is_explained(name: str, thing: Any) -> None:
    words = inspect.getdoc(thing)
    assert words, f"{name} has no docstring"
    assert not re.search(r"[Ss]ee\s+`packhouse\.v1|\.proto\b", words), f"{name} refers to the protos"


def test_arguments_that_are_handed_on_are_explained() -> None:
    for arguments in (packhouse.EpochArguments, packhouse.ConnectionArguments):
        words = inspect.getdoc(arguments) or ""
        for name in arguments.__annotations__:
            if arguments is packhouse.EpochArguments or "Epoch" not in name:
                assert f"`{name}`" in words, f"{arguments.__name__} does not explain {name}"
