"""What deploy/partition says must be true of the program that was built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "deploy" / "partition"
PROGRAM: Final = os.environ.get("PACKHOUSE_PARTITION", "")
GOLDEN: Final = Path(os.environ.get("PACKHOUSE_SHARED_DATA") or "/none") / "partition"

needs_program = pytest.mark.skipif(
    not PROGRAM or shutil.which("mpirun") is None, reason="no packhouse-partition, or no mpirun"
)


def documents() -> dict[str, Any]:
    """The objects of mpi-job.yaml, by kind."""
    loaded = list(yaml.safe_load_all((FOLDER / "mpi-job.yaml").read_text()))
    return {document["kind"]: document for document in loaded}


def replica(kind: str) -> Any:
    return documents()["MPIJob"]["spec"]["mpiReplicaSpecs"][kind]


def container(kind: str) -> Any:
    (only,) = replica(kind)["template"]["spec"]["containers"]
    return only


def test_pods_share_image_user_and_volume() -> None:
    version = re.search(
        r"^project\(packhouse VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE
    )
    assert version is not None
    image = f"packhouse-partition:{version[1]}"
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert f"--tag {image} " in dockerfile
    claim = documents()["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for kind in ("Launcher", "Worker"):
        pod = replica(kind)["template"]["spec"]
        assert container(kind)["image"] == image
        assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile
        (volume,) = pod["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (mount,) = container(kind)["volumeMounts"]
        assert mount["name"] == volume["name"]


def test_ssh_is_where_the_image_has_it() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    worker = container("Worker")
    (port,) = (port["containerPort"] for port in worker["ports"])
    assert dockerfile.count(f"Port {port}") == 2  # Of the client and of sshd.
    keys = documents()["MPIJob"]["spec"]["sshAuthMountPath"]
    assert f"HostKey {keys}/id_rsa" in dockerfile
    assert f"> {worker['args'][-1]}" in dockerfile


@needs_program
def test_the_launcher_starts_a_rank_for_each_worker(tmp_path: Path) -> None:
    """Its own arguments, with the golden graph in place of the volume's."""
    launcher = container("Launcher")
    assert launcher["command"] == ["mpirun"]
    flag, ranks, program, *arguments = launcher["args"]
    spec = documents()["MPIJob"]["spec"]
    assert (flag, program) == ("-np", "packhouse-partition")
    assert int(ranks) == spec["slotsPerWorker"] * replica("Worker")["replicas"]
    graph = GOLDEN / "chunked"
    if not graph.is_dir():
        pytest.skip(f"no golden partitions in {GOLDEN}")
    words = [
        str(graph) if word == "/data/graph" else word.replace("/data", str(tmp_path))
        for word in arguments
    ]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["mpirun", *root, "--oversubscribe", flag, ranks, PROGRAM, *words]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    assert (tmp_path / "partition" / "graph.json").exists()


def output_of(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@needs_program
def test_the_image_has_what_the_program_links() -> None:
    listed = (ROOT / "deploy" / "debian-packages.txt").read_text()
    section = listed.partition("[partition-runtime]\n")[2].partition("\n[")[0].split("\n")
    packages = {line for line in section if not line.startswith("#")}
    packages |= {"libc6", "libgcc-s1", "libstdc++6"}  # Of every image.
    needed = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", PROGRAM))
    assert "libptscotch-7.0.so" in needed
    paths = dict(re.findall(r"(\S+) => (\S+)", output_of("ldd", PROGRAM)))
    assert "scotch-int64" in paths["libptscotch-7.0.so"]
    # By name: dpkg knows some of them by another path. Not all packages are on this machine.
    there = set()
    for package in packages:
        for files in Path("/var/lib/dpkg/info").glob(f"{package}[:.]*list"):
            there |= {Path(line).name for line in files.read_text().splitlines()}
    assert {Path(paths[library]).resolve().name for library in needed} <= there


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_kubernetes_takes_the_pods(version: str) -> None:
    """In the environment [kubernetes]: the pods that the operator would make, and the claim."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    checked = [documents()["PersistentVolumeClaim"]]
    for kind in ("Launcher", "Worker"):
        spec = replica(kind)["template"]["spec"]
        metadata = {"name": "packhouse-partition"}
        checked.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    for document in checked:
        kubernetes_validate.validate(document, version, strict=True)
        document["spec"]["mispelt"] = 1
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document, version, strict=True)


def test_the_image_has_what_the_section_says() -> None:
    listed = (ROOT / "deploy" / "debian-packages.txt").read_text()
    dockerfile = (FOLDER / "Dockerfile").read_text()
    for sections in re.findall(r"install-packages.sh ([a-z -]+?) &&", dockerfile):
        for section in sections.split():
            assert f"[{section}]" in listed
