"""Rejects a call on files that `tests/support/failing_calls.cc` cannot make fail.

The server's stores call the C library themselves, and through LMDB and the C++ library. What changes
files there must be replaced by the harness, or named below with the reason.

Usage: failing_calls_test.py REPOSITORY PACKHOUSED. Exit status 1 if something is wrong, or if the
check fails to find what it is given.
"""

import pathlib
import re
import subprocess
import sys

# Of the C library: what makes, opens, changes, syncs, renames or removes files.
ON_FILES = re.compile(
    r"_*(open(at)?(64)?(_2)?|creat(64)?|opendir|fopen(64)?|freopen(64)?|mk[do]?s?temps?(64)?|"
    r"tmpfile(64)?|p?read(64|v|v64|v2)?|p?write(64|v|v64|v2)?|f(data)?sync|sync(fs)?|"
    r"sync_file_range|msync|f?truncate(64)?|(posix_)?fallocate(64)?|copy_file_range|"
    r"sendfile(64)?|splice|rename(at2?)?|link(at)?|symlink(at)?|unlink(at)?|remove|rmdir|"
    r"mkdir(at)?|mknod(at)?|mkfifo(at)?)"
)
LEFT_ALONE = {
    "fopen": "reads below /proc, and random numbers",
    "fopen64": "streams of the C++ library: no store writes through them",
    "freopen64": "as fopen64",
    "mkdtemp": "folders of commands, outside of data folders",
    "msync": "LMDB calls it only where it writes through its map, which nothing here does",
    "sendfile": "std::filesystem::copy_file: no store copies so",
    "symlink": "std::filesystem::create_symlink: no store makes links of this kind",
    "truncate": "std::filesystem::resize_file: no store cuts off so",
    "truncate64": "std::filesystem::resize_file: no store cuts off so",
}


def called_by(program: pathlib.Path) -> set[str]:
    """Functions on files that a program or library takes from others."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", program], capture_output=True,
                            text=True, check=True)
    names = (line.split()[-1].split("@")[0] for line in listed.stdout.splitlines())
    return {name for name in names if ON_FILES.fullmatch(name)}


def libraries_of(program: pathlib.Path) -> list[pathlib.Path]:
    """LMDB and the C++ library, as the program finds them."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(path)
            for path in re.findall(r"(\S*/(?:liblmdb|libstdc\+\+)\.so\S*) \(", listed)]


def main() -> int:
    repository, program = map(pathlib.Path, sys.argv[1:])
    harness = (repository / "tests/support/failing_calls.cc").read_text(encoding="utf-8")
    replaced = set(re.findall(r"^(?:int|ssize_t|DIR\*) (\w+)\(", harness, re.MULTILINE))
    replaced |= set(re.findall(r"^PACKHOUSE_OPEN(?:AT)?\((\w+)\)", harness, re.MULTILINE))
    libraries = libraries_of(program)
    called = {each: called_by(each) for each in (program, *libraries)}
    if len(libraries) != 2 or not {"fsync", "rename"} <= called[program] or len(replaced) < 20:
        print("the check does not find what it looks at")
        return 1
    missing = [
        f"{each.name} calls {name}()"
        for each, names in called.items()
        for name in sorted(names - replaced - set(LEFT_ALONE))
    ]
    for each in missing:
        print(f"{each}, which tests/support/failing_calls.cc does not replace")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
