"""What kustomize makes of deploy/kubernetes is good for a cluster.

Runs in the environment [kubernetes] of tests/conformance/environments.txt. Needs kubectl, and node and npm
for the schemas of custom resources, and go for kube-score; what is missing is skipped.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

kubernetes_validate = pytest.importorskip("kubernetes_validate")

ROOT: Final = Path(__file__).resolve().parents[2]
KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
CUSTOM: Final = Path(__file__).with_name("custom_resources")
# Where tools are kept that come from outside.
TOOLS: Final = ROOT / "build" / "tools"
FOLDERS: Final = ("stateless", "datasets", "cluster", "trainer", "example")
# ReadWriteOncePod is not asked about before this one.
OLDEST: Final = "1.29"
NEWEST: Final = "1.37"
KUBE_SCORE: Final = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"
# What kube-score asks for and we do not do, and why.
NOT_FOLLOWED: Final = {
    "container-resources": "no limit of CPU: throttling would stall every stream of a pod",
    "container-image-pull-policy": "an image by digest is never another one: no need to ask again",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints do it, and let pods start",
}

if shutil.which("kubectl") is None:
    pytest.skip("kubectl is missing", allow_module_level=True)


def run(*command: str | Path, text: str = "", **how: Any) -> subprocess.CompletedProcess[str]:
    """With output captured; the caller looks at the exit status."""
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, **how
    )


def built(folder: Path) -> str:
    """What `kubectl apply -k` would apply."""
    done = run("kubectl", "kustomize", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(folder: Path) -> list[Any]:
    """The same, read."""
    return list(yaml.safe_load_all(built(folder)))


def is_custom(document: Any) -> bool:
    """Of an operator, not of Kubernetes itself."""
    group = document["apiVersion"].rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def overlay(folder: Path, base: str, *components: str) -> Path:
    """A kustomization of a base and components."""
    folder.mkdir()
    here = os.path.relpath(KUBERNETES, folder)
    text = {
        "resources": [f"{here}/{base}"],
        "components": [f"{here}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text))
    return folder


def pods(documents: list[Any]) -> list[Any]:
    """The pod templates' specifications."""
    return [
        document["spec"]["template"]["spec"]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet", "Job")
    ]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", FOLDERS)
def test_kubernetes_takes_it(name: str, version: str) -> None:
    checked = 0
    for document in objects(KUBERNETES / name):
        if not is_custom(document):
            kubernetes_validate.validate(document, version, strict=True)
            checked += 1
    assert checked >= 3


def test_a_misspelt_field_is_seen() -> None:
    """A check that cannot fail is none."""
    for document in objects(KUBERNETES / "example"):
        if not is_custom(document) and "spec" in document:
            document["spec"]["mispelt"] = 1
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(document, NEWEST, strict=True)


def test_operators_take_their_resources(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is missing")
    place = TOOLS / "custom_resources"
    wanted = (CUSTOM / "package-lock.json").read_text()
    there = place / "package-lock.json"
    if not (there.exists() and there.read_text() == wanted and (place / "node_modules").is_dir()):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(CUSTOM, place)
        fetched = run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=place)
        if fetched.returncode != 0:
            shutil.rmtree(place)
            pytest.skip("npm packages cannot be fetched")
    shutil.copy(CUSTOM / "check.mjs", place)
    custom = [document for document in objects(KUBERNETES / "example") if is_custom(document)]
    assert {one["kind"] for one in custom} == {
        *("Certificate", "Issuer", "PodMonitor", "PrometheusRule")
    }
    done = run("node", "check.mjs", text=json.dumps(custom), cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr

    broken = copy.deepcopy(custom)
    for document in broken:
        if document["kind"] == "Certificate":
            del document["spec"]["secretName"]
        elif document["kind"] == "PodMonitor":
            document["spec"]["podMetricsEndpoints"][0]["interval"] = "often"
    done = run("node", "check.mjs", text=json.dumps(broken), cwd=place)
    assert done.returncode == 1
    assert "secretName" in done.stdout and "interval" in done.stdout


def test_kube_score_finds_nothing_that_is_not_argued() -> None:
    if shutil.which("go") is None:
        pytest.skip("go, for kube-score, is missing")
    program = TOOLS / "kube-score"
    if not program.exists():
        TOOLS.mkdir(parents=True, exist_ok=True)
        made = run(
            # Kubernetes' own types take most of the time: half of it without optimisation.
            *("go", "install", "-trimpath", "-gcflags=k8s.io/...=-N -l", KUBE_SCORE),
            env={**os.environ, "GOBIN": str(TOOLS), "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw"},
        )
        if made.returncode != 0:
            pytest.skip("kube-score cannot be fetched")
    done = run(program, "score", "--output-format", "json", "-", text=built(KUBERNETES / "example"))
    findings = [
        (check["check"]["id"], document["object_name"])
        for document in json.loads(done.stdout)
        for check in document["checks"]
        if not check["skipped"] and check["grade"] < 10
    ]
    assert [finding for finding in findings if finding[0] not in NOT_FOLLOWED] == []
    # What is argued about is really there.
    assert {check for check, _ in findings} == set(NOT_FOLLOWED)


def test_each_component_fits_each_base_and_they_fit_together(tmp_path: Path) -> None:
    components = sorted(path.name for path in (KUBERNETES / "components").iterdir())
    for base in ("stateless", "datasets", "cluster"):
        for component in components:
            made = objects(overlay(tmp_path / f"{base}-{component}", base, component))
            assert len(pods(made)) == 1
    example = yaml.safe_load((KUBERNETES / "example" / "kustomization.yaml").read_text())
    assert {Path(one).name for one in example["components"]} == set(components)


def test_what_is_mounted_is_what_the_arguments_name() -> None:
    for pod in pods(objects(KUBERNETES / "example")):
        (container,) = pod["containers"]
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        files = [word.partition("=")[2] for word in container["args"] if "=/" in word]
        assert len(files) >= 4
        assert all(any(file.startswith(mount) for mount in mounts) for file in files), files
        assert "--insecure" not in container["args"]
        assert "--http-tls" in container["args"]
        probes = [value["httpGet"] for key, value in container.items() if key.endswith("Probe")]
        assert [probe["scheme"] for probe in probes] == ["HTTPS"] * 3
        volumes = {volume["name"] for volume in pod.get("volumes", [])} | {"data"}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        # Files of secrets and volumes get this group; the server is in it.
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_servers_of_a_cluster_have_what_their_arguments_name() -> None:
    documents = objects(KUBERNETES / "cluster")
    (pod,) = pods(documents)
    (container,) = pod["containers"]
    variables = {one["name"] for one in container["env"]}
    used = {name for word in container["args"] for name in re.findall(r"\$\((\w+)\)", word)}
    assert used == variables
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    files = [word.partition("=")[2] for word in container["args"] if "=/" in word]
    assert {Path(file).parts[1] for file in files} == {Path(mount).parts[1] for mount in mounts}
    (config,) = (one for one in documents if one["kind"] == "ConfigMap")
    named = {one["valueFrom"].get("configMapKeyRef", {}).get("key") for one in container["env"]}
    assert named - {None} == config["data"].keys()
    services = {one["metadata"]["name"] for one in documents if one["kind"] == "Service"}
    (servers,) = (one for one in documents if one["kind"] == "StatefulSet")
    assert servers["spec"]["serviceName"] in services
    (claim,) = servers["spec"]["volumeClaimTemplates"]
    (cache,) = (int(word.partition("=")[2]) for word in container["args"] if "cache-bytes" in word)
    volume = claim["spec"]["resources"]["requests"]["storage"]
    assert cache == 0.9 * int(volume.removesuffix("Gi")) * 2**30
    assert mounts["/cache"] == claim["metadata"]["name"]


def test_the_server_takes_the_arguments_of_a_cluster() -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    documents = objects(KUBERNETES / "cluster")
    (config,) = (one for one in documents if one["kind"] == "ConfigMap")
    ((container,),) = (pod["containers"] for pod in pods(documents))
    values = {"POD_NAME": "pod-0", "POD_NAMESPACE": "here"}
    for one in container["env"]:
        if key := one["valueFrom"].get("configMapKeyRef", {}).get("key"):
            values[one["name"]] = config["data"][key]
    words = [
        re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], word) for word in container["args"]
    ]
    # All flags are read and checked; then the files that they name are not there.
    done = run(os.environ["PACKHOUSED"], *words)
    assert done.returncode == 1, done.stderr
    assert any(one in done.stderr for one in ("/s3/credentials", "/signing/", "ledger")), done.stderr


@pytest.mark.parametrize("name", FOLDERS)
def test_a_stateful_set_names_a_headless_service_of_its_pods(name: str) -> None:
    documents = objects(KUBERNETES / name)
    services = {each["metadata"]["name"]: each["spec"] for each in documents
                if each["kind"] == "Service"}
    for document in documents:
        if document["kind"] != "StatefulSet":
            continue
        spec = document["spec"]
        service = services[spec["serviceName"]]
        assert service["clusterIP"] == "None"
        assert service["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_ports_say_what_they_speak(tmp_path: Path) -> None:
    for base in ("stateless", "datasets", "cluster"):
        for component, grpc, http in (((), "kubernetes.io/h2c", "http"), (("tls",), None, "https")):
            folder = overlay(tmp_path / f"{base}{len(component)}", base, *component)
            for document in objects(folder):
                if document["kind"] != "Service":
                    continue
                for port in document["spec"]["ports"]:
                    expected = {"grpc": grpc, "http": http}[port["name"]]
                    assert port.get("appProtocol") == expected, (base, component, document)


def test_images_are_named_by_digest() -> None:
    for pod in pods(objects(KUBERNETES / "example")):
        (container,) = pod["containers"]
        assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", container["image"])


def test_pods_say_what_they_take_and_run_without_rights() -> None:
    for folder in FOLDERS:
        for pod in pods(objects(KUBERNETES / folder)):
            for container in [*pod["containers"], *pod.get("initContainers", [])]:
                resources = container["resources"]
                assert {"cpu", "memory", "ephemeral-storage"} <= resources["requests"].keys()
                assert {"memory", "ephemeral-storage"} == resources["limits"].keys()
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert pod["securityContext"]["runAsUser"] == 65532


def test_the_policy_and_the_monitor_name_what_there_is() -> None:
    documents = {(one["kind"], one["metadata"]["name"]): one for one in objects(KUBERNETES / "example")}
    labels = {
        one["metadata"]["labels"]["app.kubernetes.io/name"]
        for (kind, _), one in documents.items()
        if kind in ("Deployment", "StatefulSet")
    }
    network = documents["NetworkPolicy", "packhouse"]["spec"]["podSelector"]
    monitor = documents["PodMonitor", "packhouse"]["spec"]["selector"]
    for selector in (network, monitor):
        (expression,) = selector["matchExpressions"]
        assert set(expression["values"]) == labels
    scaler = documents["HorizontalPodAutoscaler", "packhouse"]["spec"]
    target = documents[scaler["scaleTargetRef"]["kind"], scaler["scaleTargetRef"]["name"]]
    assert "replicas" not in target["spec"]
    (streams,) = (
        int(word.partition("=")[2])
        for word in target["spec"]["template"]["spec"]["containers"][0]["args"]
        if word.startswith("--max-streams=")
    )
    (by_streams,) = (one["pods"] for one in scaler["metrics"] if one["type"] == "Pods")
    assert int(by_streams["target"]["averageValue"]) == streams * 3 // 4
    certificate = documents["Certificate", "packhouse"]["spec"]
    (endpoint,) = documents["PodMonitor", "packhouse"]["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] in certificate["dnsNames"]
    services = {name for kind, name in documents if kind == "Service"}
    assert services <= set(certificate["dnsNames"])


def test_the_server_takes_the_policy_of_the_component(tmp_path: Path) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    policy = KUBERNETES / "components" / "tokens" / "policy.yaml"
    asked = run(os.environ["PACKHOUSED"], f"--policy={policy}", "--print-config")
    assert asked.returncode == 0, asked.stderr
