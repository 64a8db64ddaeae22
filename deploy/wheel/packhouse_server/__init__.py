"""The server of packhouse, as a program inside a Python package.

`packhouse.LocalServer` finds it here; on the command line it is `packhoused`. `packhouse-metis`, which it
starts to cut graphs, lies beside it, and `packhouse-graph`, which `packhouse` starts for large graphs in files
and TF-GNN's files.
"""

import os
import pathlib
import sys
from typing import NoReturn


def program(name: str = "packhoused") -> str:
    """The path of a program of this package. Raises FileNotFoundError if it has none of that name."""
    path = pathlib.Path(__file__).parent / "bin" / name
    if not path.is_file():
        raise FileNotFoundError(f"no program {name!r} in {path.parent}")
    return str(path)


def packhoused() -> NoReturn:
    """Becomes the server, with this process's arguments."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
