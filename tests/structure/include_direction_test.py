"""Rejects an include that points the wrong way through the house.

An include may point only to the left in ROOMS; gRPC and generated messages are seen by rpc and the
clients alone, prometheus by metrics alone; clients see protos, not the service.

Usage: include_direction_test.py REPOSITORY. Exit status 1 if there is a wrong include, or if the
check fails to find one that it is given.
"""

import pathlib
import re
import sys

ROOMS = [
    "sizes",
    "admission",
    "planning",
    "packing",
    "graphs",
    "collation",
    "datasets",
    "sampling",
    "partitioning",
    "delivery",
    "rpc",
]
# metrics implements the observers that rooms declare; main wires everything.
OBSERVED_BY_METRICS = {
    "service/datasets/commit_observer.h",
    "service/delivery/delivery_snapshot.h",
    "service/delivery/pack_observer.h",
    "service/planning/limits.h",
    "service/rpc/rpc_observer.h",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def wrong_include(file: str, included: str) -> str | None:
    """Why `file` must not include `included`; None if it may."""
    parts = file.split("/")
    if parts[0] == "client":
        return "clients see protos only" if included.startswith("service/") else None
    if parts[0] != "service":
        return None
    room = parts[1] if len(parts) > 2 else "main"
    sees_wire = included.startswith(("grpc", "google/protobuf", "packhouse/v1"))
    if sees_wire and room not in ("rpc", "main"):
        return "only rpc and the clients see gRPC and messages"
    if included.startswith("prometheus") and room != "metrics":
        return "only metrics sees prometheus"
    if included.startswith("microhttpd") and room != "http":
        return "only http sees libmicrohttpd"
    if included.startswith("spdlog") and room != "main":
        return "only main logs"
    if included.startswith("client/"):
        return "the service does not know its clients"
    if not included.startswith("service/") or room == "main":
        return None
    target = included.split("/")[1]
    if room == "metrics":
        ok = target == "metrics" or included in OBSERVED_BY_METRICS
        return None if ok else "metrics sees the observer interfaces only"
    if room == "http":
        ok = target == "http" or included == "service/sizes/status_macros.h"
        return None if ok else "http serves what it is given"
    if target not in ROOMS:
        return f"{room} must not see {target}"
    if ROOMS.index(target) > ROOMS.index(room):
        return f"{target} is to the right of {room}"
    return None


def check_itself() -> list[str]:
    """The rule must refuse these; a check that cannot fail is none."""
    refused = [
        ("service/sizes/a.h", "service/planning/limits.h"),
        ("service/packing/a.cc", "service/graphs/dtype.h"),
        ("service/delivery/a.cc", "packhouse/v1/sizes.pb.h"),
        ("service/rpc/a.cc", "prometheus/counter.h"),
        ("service/rpc/a.cc", "service/metrics/metrics.h"),
        ("service/rpc/a.cc", "client/cpp/status.h"),
        ("service/metrics/a.cc", "microhttpd.h"),
        ("service/http/a.cc", "service/admission/event_log.h"),
        ("service/rpc/a.cc", "service/http/http_server.h"),
        ("service/rpc/a.cc", "spdlog/spdlog.h"),
        ("client/cpp/a.cc", "service/sizes/size_table.h"),
    ]
    return [f"not refused: {file} -> {inc}" for file, inc in refused if not wrong_include(file, inc)]


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    problems = check_itself()
    checked = 0
    for folder in ("service", "client"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            checked += 1
            file = path.relative_to(root).as_posix()
            for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                why = wrong_include(file, included)
                if why:
                    problems.append(f"{file} includes {included}: {why}")
    if checked < 50:
        problems.append(f"only {checked} files found below {root}")
    for problem in problems:
        print(problem)
    print(f"{checked} files checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
