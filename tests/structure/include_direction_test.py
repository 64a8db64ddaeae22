"""Rejects an include that points the wrong way through the house.

service/ lies in eight folders, from the bottom: base, access, algorithms, stores, engine, server, wings,
program. A file includes what lies in its own folder and below it, never upward. A wing sees the wings that
it stands on (WINGS), and no others. The program names a wing in program/wings alone, which has a file for
each, and no library of the folders below links one (rooms.cmake): so a wing can be left out. Inside a floor,
the rooms have an order, too (FLOORS), so there is no circle.

Some libraries are seen by few rooms: gRPC by the server's calls and services and by etcd's client,
prometheus by metrics, libmicrohttpd and GnuTLS by http, LMDB by what is stored in it, spdlog by the program.
Clients see protos, not the service.

Usage: include_direction_test.py REPOSITORY. Exit status 1 if there is a wrong include, if a file of
service/ lies in no room, or if the check fails to find a wrong include that it is given.
"""

from __future__ import annotations

import pathlib
import re
import sys

# From the lowest floor to the highest; and of each floor its rooms, those that may include others behind
# them. Rooms in one pair of brackets do not see each other.
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "base": (("base",), ("base/command_line",)),
    "access": (("access",), ("access/security",)),
    "algorithms": (
        ("algorithms/sizes",),
        ("algorithms/histograms", "algorithms/graphs"),
        ("algorithms/planning",),
        ("algorithms/planning/optimizer", "algorithms/planning/feedback", "algorithms/packing", "algorithms/collation"),
        ("algorithms/planning/baselines", "algorithms/planning/tuning", "algorithms/pieces"),
    ),
    "stores": (("stores/objects", "stores/limits"), ("stores/keys",), ("stores/datasets",), ("stores/lmdb",), ("stores/logs",)),
    "engine": (
        ("engine/epochs", "engine/streams", "engine/histograms", "engine/feedback"),
        ("engine/jobs",),
        ("engine/examples",),
    ),
    "server": (
        ("server/calls", "server/http", "server/lanes"),
        ("server/wire", "server/calls_grpc", "server/metrics"),
        ("server/services",),
        ("server/listen",),
    ),
    "wings/tfgnn": (("wings/tfgnn",),),
    "wings/graphs": (
        ("wings/graphs/source_graphs",),
        ("wings/graphs/stored", "wings/graphs/sampling", "wings/graphs/files"),
        ("wings/graphs/epochs",),
        ("wings/graphs/services",),
    ),
    "wings/partition": (
        ("wings/partition/files", "wings/partition/cutting"),
        ("wings/partition/engines", "wings/partition/jobs", "wings/partition/epochs"),
        ("wings/partition/services",),
    ),
    "wings/partition_mpi": (("wings/partition_mpi/shares",), ("wings/partition_mpi/runs",), ("wings/partition_mpi",)),
    "wings/cluster": (
        ("wings/cluster/etcd", "wings/cluster/s3", "wings/cluster/datasets", "wings/cluster/histograms"),
        ("wings/cluster/graphs",),
        ("wings/cluster/shared",),
        ("wings/cluster/jobs",),
        ("wings/cluster/check",),
    ),
    "wings/page": (("wings/page",),),
    "program": (("program/data_folder",), ("program/commands",), ("program",), ("program/wings",)),
}
# What a wing stands on, besides what lies below all wings.
WINGS: dict[str, tuple[str, ...]] = {
    "wings/tfgnn": (),
    "wings/graphs": ("wings/tfgnn",),
    "wings/partition": ("wings/tfgnn", "wings/graphs"),
    "wings/partition_mpi": ("wings/tfgnn", "wings/graphs", "wings/partition"),
    "wings/cluster": ("wings/tfgnn", "wings/graphs"),
    "wings/page": (),
}
FLOOR_OF = {room: floor for floor, levels in FLOORS.items() for level in levels for room in level}
LEVEL_OF = {room: i for levels in FLOORS.values() for i, level in enumerate(levels) for room in level}
HEIGHT_OF = {floor: i for i, floor in enumerate(FLOORS)}
# metrics implements the observers that rooms declare. Besides them it sees only what a namespace is,
# and what no limit is.
OBSERVED_BY_METRICS = {
    "service/access/policy.h",
    "service/algorithms/planning/limits.h",
    "service/engine/epochs/sampling_observer.h",
    "service/engine/feedback/feedback_reading.h",
    "service/engine/jobs/delivery_snapshot.h",
    "service/engine/streams/pack_observer.h",
    "service/server/calls/call_journal.h",
    "service/server/calls/rpc_observer.h",
    "service/stores/datasets/commit_observer.h",
}
# The parts of the server and of the wings that speak gRPC.
SERVICES = ("server/calls_grpc", "server/listen", "server/services", "wings/graphs/services", "wings/partition/services")
# Those that know the contract's messages.
MESSAGES_SEEN_BY = (*SERVICES, "server/calls", "server/wire", "wings/tfgnn", "wings/page", "program/commands")
# What begins with this may be included by these rooms, and by the program.
SEEN_BY: dict[str, tuple[str, ...]] = {
    "grpc": (*SERVICES, "wings/cluster/etcd"),
    # etcd's messages.
    "etcd/": ("wings/cluster/etcd",),
    "microhttpd": ("server/http",),
    "gnutls": ("server/http",),
    "prometheus": ("server/metrics",),
    "spdlog": (),
    "nlohmann": (
        "base/command_line",
        "program/commands",
        "wings/partition/files",
        "wings/partition/jobs",
        "wings/partition_mpi/runs",
        "access/security",
        "wings/page",
    ),
    "jwt.h": ("access/security",),
    "yaml-cpp": ("access/security",),
    "curl": ("wings/cluster/s3",),
    "lmdb": ("stores/lmdb", "stores/logs", "program/data_folder"),
    "metis": ("wings/partition/engines",),
    "mpi.h": ("wings/partition_mpi",),
    "ptscotch": ("wings/partition_mpi",),
    "scotch": ("wings/partition_mpi",),
    "google/protobuf": MESSAGES_SEEN_BY,
    # Formats of TensorFlow and TF-GNN.
    "tensorflow": ("wings/tfgnn", "wings/graphs/files"),
    "packhouse/v1": MESSAGES_SEEN_BY,
    # What is stored. Other rooms have plain structs.
    "packhouse/internal": (
        "stores/datasets",
        "stores/lmdb",
        "stores/logs",
        "engine/jobs",
        "engine/feedback",
        "wings/graphs/stored",
        "wings/cluster/datasets",
        "wings/cluster/graphs",
        "wings/cluster/histograms",
    ),
}
# The places of the clients that see rooms: the commands for files of TF-GNN and of large graphs,
# which would otherwise have decoders of their own, and those that partition files without a server.
# What every command line needs, each program with one sees.
FORMS = ("algorithms/graphs", "algorithms/sizes", "base/command_line", "base")
SEEN_BY_COMMANDS: dict[str, tuple[str, ...]] = {
    "client/graph/tfgnn/": ("wings/tfgnn", *FORMS),
    "client/graph/partition/": (
        "wings/partition/jobs",
        "wings/partition/files",
        "wings/partition/cutting",
        "wings/partition/engines",
        "wings/graphs/source_graphs",
        *FORMS,
    ),
    "client/graph/source_graphs/": (
        "wings/graphs/files",
        "wings/partition/files",
        "wings/graphs/source_graphs",
        "wings/tfgnn",
        *FORMS,
    ),
    "client/graph/files/": ("wings/graphs/files", *FORMS),
    "client/graph/": ("base/command_line", "base"),
    "client/command/": ("base/command_line", "base"),
    "client/bench/": ("base/command_line", "base"),
}
# `packhoused admin` is a client of a server, and these know the contract only: there is no circle.
CLIENTS_SEEN_BY_COMMANDS = ("client/cpp/", "client/command/")
# A generated message of reflection, which is no part of the library gRPC.
MESSAGES = re.compile(r"grpc/reflection/[^/]+/[^/]+\.pb\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def room_of(file: str) -> str:
    """`file` without service/ and its name; empty for the files of service/ itself."""
    return "/".join(file.split("/")[1:-1])


def wrong_include(file: str, included: str) -> str | None:
    """Why `file` must not include `included`; None if it may."""
    if file.startswith("client/"):
        return wrong_include_of_client(file, included)
    if not file.startswith("service/"):
        return None
    room = room_of(file)
    if room not in FLOOR_OF:
        return f"{room} is no room"
    if room == "program/commands" and included.startswith(CLIENTS_SEEN_BY_COMMANDS):
        return None
    if included.startswith("client/"):
        return "the service does not know its clients"
    if MESSAGES.match(included) and not included.endswith(".grpc.pb.h"):
        return None if room in MESSAGES_SEEN_BY else f"{room} must not see messages"
    for library, rooms in SEEN_BY.items():
        if room != "program" and included.startswith(library):
            if included.endswith(".grpc.pb.h") and library != "etcd/":
                rooms = SERVICES
            return None if room in rooms else f"{room} must not see {library}"
    return wrong_room(room, included) if included.startswith("service/") else None


def wrong_include_of_client(file: str, included: str) -> str | None:
    """The same for a file of client/."""
    seen = next((r for f, r in SEEN_BY_COMMANDS.items() if file.startswith(f)), ())
    if seen and included.startswith("service/"):
        return None if room_of(included) in seen else "no room of files' formats"
    if included.startswith("tensorflow") and "wings/tfgnn" not in seen:
        return "clients do not see TF-GNN's messages"
    hidden = included.startswith(("service/", "packhouse/internal/"))
    return "clients see the contract only" if hidden else None


def wrong_room(room: str, included: str) -> str | None:
    """The same for a file of a room, and a header of service/."""
    target = room_of(included)
    if target == room:
        return None
    if target not in FLOOR_OF:
        return f"{target or 'service'} is no room"
    if target in ("server/metrics", "server/http"):
        return None if room in ("program", "program/wings") else f"only the program sees {target}"
    if room == "server/metrics":
        return None if included in OBSERVED_BY_METRICS else "metrics sees the observer interfaces only"
    here, there = FLOOR_OF[room], FLOOR_OF[target]
    if here == "program" and there in WINGS and room != "program/wings":
        return "the program names a wing in program/wings alone"
    if here == there:
        return None if LEVEL_OF[target] < LEVEL_OF[room] else f"{target} is not below {room}"
    if here in WINGS and there in WINGS:
        return None if there in WINGS[here] else f"{here} does not stand on {there}"
    return None if HEIGHT_OF[there] < HEIGHT_OF[here] else f"{there} is not below {here}"


def check_itself() -> list[str]:
    """The rule must refuse these; a check that cannot fail is none."""
    refused = [
        ("service/algorithms/sizes/a.h", "service/algorithms/planning/limits.h"),
        ("service/algorithms/sizes/a.h", "service/server/calls/gate.h"),
        ("service/base/a.h", "service/access/policy.h"),
        ("service/base/a.h", "service/base/command_line/json.h"),
        ("service/stores/keys/a.h", "service/stores/logs/record_log.h"),
        ("service/stores/keys/a.cc", "grpcpp/channel.h"),
        ("service/stores/limits/a.cc", "service/engine/jobs/loader.h"),
        ("service/wings/cluster/jobs/a.cc", "etcd/rpc.pb.h"),
        ("service/wings/cluster/a/a.cc", "service/base/clock.h"),
        ("service/algorithms/planning/a.h", "service/algorithms/planning/optimizer/mixing.h"),
        ("service/algorithms/planning/tuning/a.h", "service/algorithms/planning/baselines/planner.h"),
        ("service/algorithms/packing/a.cc", "service/program/options.h"),
        ("service/stores/datasets/a.cc", "service/stores/lmdb/map_guard.h"),
        ("service/stores/datasets/a.cc", "lmdb.h"),
        ("service/wings/cluster/datasets/a.cc", "curl/curl.h"),
        ("service/wings/cluster/datasets/a.cc", "service/wings/cluster/s3/s3_object_store.h"),
        ("service/wings/cluster/s3/a.cc", "service/wings/partition/jobs/durable_files.h"),
        ("service/wings/graphs/stored/a.cc", "service/wings/cluster/graphs/graph_upload.h"),
        ("service/wings/tfgnn/a.cc", "service/wings/graphs/files/csv_reader.h"),
        ("service/wings/page/a.cc", "service/wings/tfgnn/graph_sets.h"),
        ("service/wings/partition/cutting/a.cc", "metis.h"),
        ("service/wings/partition/cutting/a.cc", "service/wings/partition/engines/metis_engine.h"),
        ("service/wings/graphs/source_graphs/a.cc", "service/wings/graphs/stored/row_log.h"),
        ("service/engine/epochs/a.cc", "service/engine/jobs/loader.h"),
        ("service/engine/streams/a.cc", "service/engine/epochs/epoch_plan.h"),
        ("service/engine/epochs/a.cc", "service/wings/graphs/epochs/sample_window.h"),
        ("service/engine/jobs/a.cc", "packhouse/v1/sizes.pb.h"),
        ("service/engine/epochs/a.cc", "packhouse/internal/stored.pb.h"),
        ("service/server/wire/a.cc", "packhouse/internal/stored.pb.h"),
        ("client/cpp/a.cc", "packhouse/internal/stored.pb.h"),
        ("service/server/wire/a.cc", "grpcpp/support/byte_buffer.h"),
        ("service/server/calls/a.cc", "packhouse/v1/loader.grpc.pb.h"),
        ("service/server/calls/a.cc", "service/server/wire/wire_cursor.h"),
        ("service/server/wire/a.cc", "service/server/listen/server.h"),
        ("service/server/wire/a.cc", "service/wings/page/page_api.h"),
        ("service/wings/page/a.cc", "grpcpp/channel.h"),
        ("service/server/services/a.cc", "prometheus/counter.h"),
        ("service/server/services/a.cc", "service/server/metrics/metrics.h"),
        ("service/server/services/a.cc", "client/cpp/status.h"),
        ("service/program/a.cc", "client/cpp/status.h"),
        ("service/program/commands/a.cc", "client/graph/local_server.h"),
        ("client/command/a.cc", "service/program/options.h"),
        ("service/server/metrics/a.cc", "service/engine/jobs/loader.h"),
        ("service/server/metrics/a.cc", "microhttpd.h"),
        ("service/server/http/a.cc", "service/server/calls/gate.h"),
        ("service/server/listen/a.cc", "spdlog/spdlog.h"),
        ("service/server/listen/a.cc", "service/program/options.h"),
        ("client/cpp/a.cc", "service/algorithms/sizes/size_table.h"),
        ("client/graph/tfgnn/a.cc", "service/algorithms/planning/limits.h"),
        ("client/graph/tfgnn/a.cc", "service/wings/graphs/files/csv_reader.h"),
        ("client/graph/source_graphs/a.cc", "service/stores/datasets/dataset_store.h"),
        ("client/bench/a.cc", "service/wings/tfgnn/graph_sets.h"),
        ("client/graph/files/a.cc", "service/wings/partition/jobs/restore.h"),
        ("client/graph/partition/a.cc", "service/engine/jobs/loader.h"),
        ("client/cpp/a.cc", "tensorflow/core/example/example.pb.h"),
        ("service/server/wire/a.cc", "tensorflow_gnn/proto/graph_schema.pb.h"),
        ("service/algorithms/graphs/a.cc", "service/wings/tfgnn/graph_sets.h"),
        ("service/wings/partition/files/a.cc", "service/wings/partition/jobs/restore.h"),
        ("service/wings/partition/cutting/a.cc", "nlohmann/json.hpp"),
        ("service/wings/partition_mpi/shares/a.cc", "mpi.h"),
        ("service/wings/partition_mpi/runs/a.cc", "ptscotch.h"),
        ("service/wings/partition_mpi/runs/a.cc", "service/wings/partition_mpi/mpi_ranks.h"),
        ("service/wings/partition/jobs/a.cc", "service/wings/partition_mpi/runs/run_folder.h"),
        ("service/wings/graphs/sampling/a.cc", "tensorflow_gnn/proto/sampling_spec.pb.h"),
        ("service/program/a.cc", "service/wings/page/page_api.h"),
        ("service/program/commands/a.cc", "service/wings/graphs/stored/row_log.h"),
        ("service/program/data_folder/a.h", "service/program/wings/a.h"),
        ("service/a.cc", "service/base/clock.h"),
    ]
    return [f"not refused: {file} -> {included}" for file, included in refused if not wrong_include(file, included)]


def rooms_of(text: str) -> list[tuple[str, str, list[str]]]:
    """Of a rooms.cmake: each library, its folder, and its sources and what it links."""
    found = []
    for name, body in re.findall(r"packhouse_room\(\s*(\w+)([^)]*)\)", text):
        folder, *words = body.split("FOLDER", 1)[1].split()
        found.append((f"packhouse_{name}", folder, words))
    return found


def linked_wings(root: pathlib.Path) -> list[str]:
    """LIBRARY -> WHAT for each library below the wings, or of the program, that has something of a wing."""
    rooms = [room for path in sorted((root / "service").rglob("rooms.cmake")) for room in rooms_of(path.read_text(encoding="utf-8"))]
    of_wings = {name for name, folder, _ in rooms if folder.startswith(("wings/", "program/wings"))}
    return [
        f"{name} -> {word}"
        for name, _, words in rooms
        if name not in of_wings
        for word in words
        if word in of_wings or word.startswith(("wings/", "program/wings/"))
    ]


def misplaced(root: pathlib.Path) -> list[str]:
    """What lies beside the folders, or has no page that says what it is."""
    top = {floor.split("/")[0] for floor in FLOORS}
    found = [
        f"service/{path.name}: service/ has the folders {', '.join(sorted(top))}, CMakeLists.txt, and nothing else"
        for path in sorted((root / "service").iterdir())
        if path.name not in top and path.name != "CMakeLists.txt"
    ]
    for folder in sorted(top):
        page = root / "service" / folder / "README.md"
        if not page.exists() or not page.read_text(encoding="utf-8").startswith(f"# {folder}: "):
            found.append(f"service/{folder}/README.md does not begin with `# {folder}: ` and what it is")
    return found


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    problems = check_itself() + misplaced(root)
    checked = 0
    for folder in ("service", "client"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            checked += 1
            file = path.relative_to(root).as_posix()
            if file.startswith("service/") and room_of(file) not in FLOOR_OF:
                problems.append(f"{file}: {room_of(file) or 'service'} is no room of FLOORS")
                continue
            for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if why := wrong_include(file, included):
                    problems.append(f"{file} includes {included}: {why}")
    problems += [f"rooms.cmake: {each}: what is below the wings, and the program, link none" for each in linked_wings(root)]
    if checked < 50:
        problems.append(f"only {checked} files found below {root}")
    for problem in problems:
        print(problem)
    print(f"{checked} files checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
