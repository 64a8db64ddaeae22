"""Rejects an include that points the wrong way through the house.

The rooms of service/ stand on floors. A file may include files of its own room and of the floors
below it. Some libraries are seen by few rooms: gRPC by rpc and cluster/etcd, prometheus by metrics,
libmicrohttpd and GnuTLS by http, LMDB by the folders named after it, spdlog by main. Clients see
protos, not the service.

Usage: include_direction_test.py REPOSITORY. Exit status 1 if there is a wrong include, if a folder
of service/ is no room, or if the check fails to find a wrong include that it is given.
"""

from __future__ import annotations

import pathlib
import re
import sys

# From the lowest floor to the highest.
FLOORS = (
    ("base",),
    ("sizes", "admission", "http", "cluster", "objects", "command_line"),
    ("histograms", "graphs", "security"),
    ("planning", "tfgnn", "source_graphs", "partition_files",
     "histograms/shared"),
    ("planning/optimizer", "planning/feedback", "graph_files", "source_graphs/stored"),
    ("planning/baselines", "planning/tuning", "packing", "collation", "datasets", "sampling",
     "partitioning"),
    ("datasets/lmdb", "datasets/object", "streams", "epochs", "partitioning/engines",
     "partitioning/distributed", "partition_jobs"),
    ("ledger", "partition_jobs/distributed", "source_graphs/object"),
    ("ledger/lmdb", "ledger/etcd", "delivery", "feedback", "partition_mpi"),
    ("data_folder", "objects/s3", "feedback/shared"),
    ("wire", "metrics", "cluster/etcd"),
    ("page", "shared_datasets"),
    ("rpc", "program/commands"),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# metrics implements the observers that rooms declare. Besides them it sees only what a namespace is,
# and what no limit is.
OBSERVED_BY_METRICS = {
    "service/server/calls/call_journal.h",
    "service/access/policy.h",
    "service/server/calls/rpc_observer.h",
    "service/stores/datasets/commit_observer.h",
    "service/engine/jobs/delivery_snapshot.h",
    "service/algorithms/planning/limits.h",
    "service/engine/epochs/sampling_observer.h",
    "service/engine/feedback/feedback_reading.h",
    "service/engine/streams/pack_observer.h",
}
# What begins with this may be included by these rooms, and by main.
SEEN_BY = {
    "grpc": ("rpc", "cluster/etcd"),
    # etcd's messages.
    "etcd/": ("cluster/etcd",),
    "microhttpd": ("http",),
    "gnutls": ("http",),
    "prometheus": ("metrics",),
    "spdlog": (),
    "nlohmann": ("command_line", "program/commands", "partition_files", "partition_jobs", "partition_jobs/distributed", "security",
                 "page"),
    "jwt.h": ("security",),
    "yaml-cpp": ("security",),
    "curl": ("objects/s3",),
    "lmdb": ("datasets/lmdb", "ledger/lmdb"),
    "metis": ("partitioning/engines",),
    "mpi.h": ("partition_mpi",),
    "ptscotch": ("partition_mpi",),
    "scotch": ("partition_mpi",),
    "google/protobuf": ("tfgnn", "wire", "page", "rpc"),
    # Formats of TensorFlow and TF-GNN.
    "tensorflow": ("tfgnn", "graph_files"),
    "packhouse/v1": ("wire", "page", "rpc"),
    # What is stored. Other rooms have plain structs.
    "packhouse/internal": (
        "datasets", "datasets/lmdb", "datasets/object", "ledger", "feedback", "delivery",
        "histograms/shared", "feedback/shared", "source_graphs/stored", "source_graphs/object",
    ),
}
# The places of the clients that see rooms: the commands for files of TF-GNN and of large graphs,
# which would otherwise have decoders of their own, and those that partition files without a server.
# What every command line needs, each program with one sees.
SEEN_BY_COMMANDS = {
    "client/graph/tfgnn/": ("tfgnn", "graphs", "sizes", "command_line", "base"),
    "client/graph/partition/": (
        "partition_jobs", "partition_files", "partitioning", "partitioning/engines",
        "source_graphs", "graphs", "sizes", "command_line", "base",
    ),
    "client/graph/source_graphs/": (
        "graph_files", "partition_files", "source_graphs", "tfgnn", "graphs", "sizes",
        "command_line", "base",
    ),
    "client/graph/": ("command_line", "base"),
    "client/bench/": ("command_line", "base"),
}
# A generated message of reflection, which is no part of the library gRPC.
MESSAGES = re.compile(r"grpc/reflection/[^/]+/[^/]+\.pb\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def room_of(file: str) -> str:
    """`file` without service/ and its name; empty for the files of service/ itself."""
    return "/".join(file.split("/")[1:-1])


def wrong_include(file: str, included: str) -> str | None:
    """Why `file` must not include `included`; None if it may."""
    if file.startswith("client/"):
        seen = next((r for f, r in SEEN_BY_COMMANDS.items() if file.startswith(f)), ())
        if seen and included.startswith("service/"):
            return None if room_of(included) in seen else "no room of files' formats"
        if included.startswith("tensorflow") and "tfgnn" not in seen:
            return "clients do not see TF-GNN's messages"
        hidden = included.startswith(("service/", "packhouse/internal/"))
        return "clients see the contract only" if hidden else None
    if not file.startswith("service/") or not (room := room_of(file)):
        return None
    if included.startswith("client/"):
        return "the service does not know its clients"
    if MESSAGES.match(included) and not included.endswith(".grpc.pb.h"):
        return None if room in ("wire", "rpc") else f"{room} must not see messages"
    for library, rooms in SEEN_BY.items():
        if included.startswith(library):
            if included.endswith(".grpc.pb.h") and library != "etcd/":
                rooms = ("rpc",)
            return None if room in rooms else f"{room} must not see {library}"
    if not included.startswith("service/"):
        return None
    target = room_of(included)
    if target == room:
        return None
    if target not in FLOOR_OF:
        return f"{target or 'main'} is no room below {room}"
    if target in ("metrics", "http"):
        return f"only main sees {target}"
    if room == "metrics":
        return (
            None if included in OBSERVED_BY_METRICS else "metrics sees the observer interfaces only"
        )
    if FLOOR_OF[target] >= FLOOR_OF[room]:
        return f"{target} is not below {room}"
    return None


def check_itself() -> list[str]:
    """The rule must refuse these; a check that cannot fail is none."""
    refused = [
        ("service/algorithms/sizes/a.h", "service/algorithms/planning/limits.h"),
        ("service/algorithms/sizes/a.h", "service/server/calls/gate.h"),
        ("service/stores/keys/a.h", "service/stores/logs/record_log.h"),
        ("service/stores/keys/a.cc", "grpcpp/channel.h"),
        ("service/wings/cluster/jobs/a.cc", "etcd/rpc.pb.h"),
        ("service/wings/cluster/jobs/a.cc", "service/wings/cluster/etcd/etcd_store.h"),
        ("service/algorithms/planning/a.h", "service/algorithms/planning/optimizer/mixing.h"),
        ("service/algorithms/planning/tuning/a.h", "service/algorithms/planning/baselines/planner.h"),
        ("service/algorithms/packing/a.cc", "service/program/options.h"),
        ("service/stores/datasets/a.cc", "service/stores/lmdb/map_guard.h"),
        ("service/stores/datasets/a.cc", "lmdb.h"),
        ("service/wings/cluster/datasets/a.cc", "curl/curl.h"),
        ("service/wings/cluster/datasets/a.cc", "service/wings/cluster/s3/s3_object_store.h"),
        ("service/wings/cluster/datasets/a.cc", "service/stores/lmdb/map_guard.h"),
        ("service/wings/partition/cutting/a.cc", "metis.h"),
        ("service/wings/partition/cutting/a.cc", "service/wings/partition/engines/metis_engine.h"),
        ("service/wings/graphs/source_graphs/a.cc", "service/wings/graphs/stored/row_log.h"),
        ("service/engine/epochs/a.cc", "service/engine/jobs/loader.h"),
        ("service/engine/jobs/a.cc", "packhouse/v1/sizes.pb.h"),
        ("service/engine/epochs/a.cc", "packhouse/internal/stored.pb.h"),
        ("service/server/wire/a.cc", "packhouse/internal/stored.pb.h"),
        ("client/cpp/a.cc", "packhouse/internal/stored.pb.h"),
        ("service/server/wire/a.cc", "grpcpp/support/byte_buffer.h"),
        ("service/server/wire/a.cc", "packhouse/v1/loader.grpc.pb.h"),
        ("service/server/wire/a.cc", "service/server/listen/server.h"),
        ("service/server/wire/a.cc", "service/wings/page/page_api.h"),
        ("service/wings/page/a.cc", "grpcpp/channel.h"),
        ("service/server/services/a.cc", "prometheus/counter.h"),
        ("service/server/services/a.cc", "service/server/metrics/metrics.h"),
        ("service/server/services/a.cc", "client/cpp/status.h"),
        ("service/server/metrics/a.cc", "microhttpd.h"),
        ("service/server/http/a.cc", "service/base/event_log.h"),
        ("service/server/services/a.cc", "spdlog/spdlog.h"),
        ("client/cpp/a.cc", "service/algorithms/sizes/size_table.h"),
        ("client/graph/tfgnn/a.cc", "service/algorithms/planning/limits.h"),
        ("client/graph/tfgnn/a.cc", "service/wings/graphs/files/csv_reader.h"),
        ("client/graph/source_graphs/a.cc", "service/stores/datasets/dataset_store.h"),
        ("service/wings/graphs/source_graphs/a.cc", "service/wings/graphs/files/csv_reader.h"),
        ("client/bench/a.cc", "service/wings/tfgnn/graph_sets.h"),
        ("client/graph/files/a.cc", "service/wings/partition/jobs/restore.h"),
        ("client/graph/partition/a.cc", "service/engine/jobs/loader.h"),
        ("client/cpp/a.cc", "tensorflow/core/example/example.pb.h"),
        ("service/server/wire/a.cc", "tensorflow_gnn/proto/graph_schema.pb.h"),
        ("service/algorithms/graphs/a.cc", "service/wings/tfgnn/graph_sets.h"),
        ("service/wings/partition/files/a.cc", "service/wings/graphs/source_graphs/source_graph.h"),
        ("service/wings/partition/cutting/a.cc", "nlohmann/json.hpp"),
        ("service/wings/partition_mpi/shares/a.cc", "mpi.h"),
        ("service/wings/partition_mpi/runs/a.cc", "ptscotch.h"),
        ("service/wings/partition_mpi/shares/a.cc", "service/wings/partition/jobs/durable_files.h"),
        ("service/wings/partition_mpi/runs/a.cc", "service/wings/partition_mpi/mpi_ranks.h"),
        ("service/wings/graphs/sampling/a.cc", "tensorflow_gnn/proto/sampling_spec.pb.h"),
    ]
    problems = [
        f"not refused: {file} -> {included}"
        for file, included in refused
        if not wrong_include(file, included)
    ]
    if not unknown_room("service/cellar/a.cc"):
        problems.append("not refused: a folder that is no room")
    return problems


def unknown_room(file: str) -> str | None:
    """Why `file` is in the wrong place; None if its folder is a room."""
    if not file.startswith("service/") or not (room := room_of(file)):
        return None
    return None if room in FLOOR_OF else f"{file}: {room} is no room of FLOORS"


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
            if why := unknown_room(file):
                problems.append(why)
                continue
            for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if why := wrong_include(file, included):
                    problems.append(f"{file} includes {included}: {why}")
    if checked < 50:
        problems.append(f"only {checked} files found below {root}")
    for problem in problems:
        print(problem)
    print(f"{checked} files checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
