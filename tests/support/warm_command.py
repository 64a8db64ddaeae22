"""The command line `packhouse` without the time in which Python starts and imports it.

A process that has imported the commands forks for each call. What a call does, prints and exits with is
what it is from a shell, but for how the process began: tests of that start PACKHOUSE_CLI.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile

from packhouse import command, files, large, stored

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__, *(
    module.name for package in (command, files, large, stored)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."))])  # fmt: skip


def run(
    *arguments: object, seconds: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with nothing to read; `environment` is added to this process's own."""
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        process = _processes.Process(
            target=_called, args=(words, {**os.environ, **environment}, os.getcwd(), folder))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, seconds)
        out, err = ((folder / each).read_bytes().decode(errors="replace") for each in ("out", "err"))
        return subprocess.CompletedProcess(words, process.exitcode, out, err)


def _called(words: list[str], environment: dict[str, str], cwd: str, folder: pathlib.Path) -> None:
    for file, path, flags in (
        (0, pathlib.Path(os.devnull), os.O_RDONLY),
        (1, folder / "out", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
        (2, folder / "err", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, file)
        os.close(opened)
    # Imported here: a test that starts no command does not wait for it.
    from packhouse.command import program

    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    os.chdir(cwd)
    sys.argv = ["packhouse", *words]
    sys.exit(program.main())
