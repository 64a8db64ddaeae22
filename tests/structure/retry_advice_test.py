"""Rejects an RPC whose comment does not say what a retry does, and clients that disagree.

Every RPC says whether it is safe to retry, or what a retry may see. The service config, which all
clients load, retries exactly those that are safe. By which codes and words a failure passes, and
what gRPC's words mean, is a table that the clients in C++ and in Python have alike.

Usage: retry_advice_test.py REPOSITORY. Exit status 1 if something is wrong, or if the check fails to
find what it is given.
"""

import json
import pathlib
import re
import sys

RPC = re.compile(r"((?:^ *//.*\n)*)^ *rpc (\w+)\(", re.MULTILINE)
SERVICE = re.compile(r"^service (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
# The tables of both clients, each with its two tables of pairs.
TABLES = ("client/cpp/away.cc", "client/python/packhouse/base/errors.py")
TABLE = re.compile(r"PASSES\b.*?= [({](.*?)^[)}].*?MEANINGS\b.*?= [({](.*?)^[)}]", re.M | re.S | re.I)
ROW = re.compile(r'[({]\s*"([^"]*)",\s*"([^"]*)"\s*[)}]')
SAFE = re.compile(r"(?<!not )safe to retry", re.IGNORECASE)


def rpcs_of(proto: str) -> dict[str, str]:
    """Comments by `Service/Method`."""
    rpcs = {}
    for service, body in SERVICE.findall(proto):
        for comment, method in RPC.findall(body):
            words = re.sub(r"\s*\n\s*//\s*", " ", "\n" + comment)
            rpcs[f"{service}/{method}"] = words
    return rpcs


def problems(protos: list[str], config: str) -> list[str]:
    rpcs: dict[str, str] = {}
    for proto in protos:
        rpcs |= rpcs_of(proto)
    retried = {
        f"{name['service'].removeprefix('packhouse.v1.')}/{name['method']}"
        for method_config in json.loads(config)["methodConfig"]
        for name in method_config["name"]
    }
    found = [f"{rpc}: says nothing of retries" for rpc in rpcs if not re.search("retr", rpcs[rpc])]
    safe = {rpc for rpc in rpcs if SAFE.search(rpcs[rpc])}
    found += [f"{rpc}: safe to retry, but not in the service config" for rpc in safe - retried]
    found += [f"{rpc}: in the service config, but not safe to retry" for rpc in retried - safe]
    return sorted(found)


def rows_of(source: str) -> list[list[tuple[str, str]]]:
    """The pairs of both tables in a client's source."""
    found = TABLE.search(source)
    return [] if found is None else [ROW.findall(table) for table in found.groups()]


def differences(cpp: str, python: str) -> list[str]:
    one, other = rows_of(cpp), rows_of(python)
    if not one or not all(one):
        return [f"{TABLES[0]}: no tables are found"]
    return [] if one == other else [f"{TABLES[0]} and {TABLES[1]}: {one} is not {other}"]


def check_the_check() -> None:
    cpp = 'Row kPasses[] = {\n {"A", ""},\n};\nRow kMeanings[] = {\n {"b", "c (d)"},\n};\n'
    python = '_PASSES: F = (\n ("A", ""),\n)\n_MEANINGS: F = (\n ("b", "c (d)"),\n)\n'
    assert rows_of(cpp) == [[("A", "")], [("b", "c (d)")]]
    assert not differences(cpp, python)
    assert len(differences(cpp, python.replace('"A"', '"B"'))) == 1
    assert len(differences(cpp, python.replace("d", "e"))) == 1
    assert len(differences("", "")) == 1
    proto = (
        "service A {\n  // Safe\n  // to retry.\n  rpc B(C) returns (D);\n"
        "  // Not safe to retry.\n  rpc E(C) returns (D);\n  rpc F(C) returns (D);\n}\n"
    )

    def config(*methods: str) -> str:
        names = [{"service": "packhouse.v1.A", "method": method} for method in methods]
        return json.dumps({"methodConfig": [{"name": names}]})

    silent = "A/F: says nothing of retries"
    assert problems([proto], config("B")) == [silent]
    assert len(problems([proto], config())) == 2
    assert len(problems([proto], config("B", "E"))) == 2


def main() -> int:
    check_the_check()
    folder = pathlib.Path(sys.argv[1]) / "proto/packhouse/v1"
    protos = [path.read_text() for path in sorted(folder.glob("*.proto"))]
    found = problems(protos, (folder / "service_config.json").read_text())
    root = pathlib.Path(sys.argv[1])
    found += differences(*((root / table).read_text() for table in TABLES))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
