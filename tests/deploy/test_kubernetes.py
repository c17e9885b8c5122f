"""deploy/kubernetes.yaml: valid by the schemas of Kubernetes, and in agreement with the config in it."""

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs]  # it has none
import pytest
import yaml

from tests.cli.running import toolbus
from tests.inside.config import Serve
from tests.inside.gateway import MARGIN
from toolbus.config import load_config

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
VERSIONS = ("1.31", "1.34", str(kubernetes_validate.latest_version()))


def named(kind: str, name: str = "toolbus") -> Any:
    """The document of that kind and name."""
    [found] = [one for one in DOCUMENTS if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pod() -> dict[str, Any]:
    return named("StatefulSet")["spec"]["template"]["spec"]


def containers() -> list[dict[str, Any]]:
    return [*pod()["initContainers"], *pod()["containers"]]


def config() -> dict[str, Any]:
    return yaml.safe_load(named("ConfigMap")["data"]["toolbus.yaml"])


def serve() -> Serve:
    found = load_config({"servers": config()["servers"], "serve": config()["serve"]}).serve
    assert found is not None
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_kubernetes_takes_every_document(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_judge_finds_a_mistake() -> None:
    broken: dict[str, Any] = {**named("Service"), "spec": {"ports": [{"port": "http"}], "selecter": {}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def test_everything_selects_the_same_pods() -> None:
    labels = named("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert named("StatefulSet")["spec"]["selector"]["matchLabels"] == labels
    assert named("Service")["spec"]["selector"] == labels
    assert named("Service", "gateways")["spec"]["selector"] == labels
    assert named("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    policy = named("NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert policy["ingress"][1]["from"] == [{"podSelector": {"matchLabels": labels}}]


def test_pods_have_no_rights_beyond_their_own_files() -> None:
    own = pod()
    assert own["automountServiceAccountToken"] is False
    user = re.search(r"--uid (\d+)", (DEPLOY / "Containerfile").read_text())
    assert user is not None
    assert own["securityContext"]["runAsUser"] == int(user[1])
    assert own["securityContext"]["runAsNonRoot"] is True
    for container in containers():
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"] is True
        assert confined["allowPrivilegeEscalation"] is False
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in own["volumes"]}
    written = {one["mountPath"] for one in own["containers"][0]["volumeMounts"] if not one.get("readOnly")}
    # What the container file says is written to.
    assert {"/var/lib/toolbus", "/home/toolbus", "/tmp"} <= written


def test_every_secret_of_the_config_is_a_variable_and_none_is_in_the_file() -> None:
    text = named("ConfigMap")["data"]["toolbus.yaml"]
    variables = {one["name"] for one in pod()["containers"][0]["env"]}
    assert set(re.findall(r"\$\{(\w+)", text)) <= variables
    secret = {one["name"] for one in pod()["containers"][0]["env"] if "valueFrom" in one}
    assert secret == {"POSTGRES_PASSWORD", "TOOLBUS_STORE_KEY"}
    assert "Secret" not in {one["kind"] for one in DOCUMENTS}


def test_ports_and_names_are_those_of_the_config() -> None:
    ports = {one["name"]: one["containerPort"] for one in pod()["containers"][0]["ports"]}
    assert serve().address == ("0.0.0.0", ports["http"])
    assert config()["store"]["address"].endswith(f":{ports['replicas']}")
    assert [port["port"] for port in named("Service")["spec"]["ports"]] == [ports["http"]]
    replicas = named("StatefulSet")["spec"]["replicas"]
    pods = [f"toolbus-{number}.gateways" for number in range(replicas)]
    assert list(serve().hosts) == ["toolbus", *pods]
    open_to_all, among_gateways = named("NetworkPolicy")["spec"]["ingress"]
    assert open_to_all["ports"] == [{"port": ports["http"]}]
    assert [one["port"] for one in among_gateways["ports"]] == [ports["replicas"]]


def test_calls_have_time_to_end_and_the_service_time_to_notice() -> None:
    notice = config()["store"]["notice"]
    assert pod()["terminationGracePeriodSeconds"] > serve().drain + notice + MARGIN
    ready = pod()["containers"][0]["readinessProbe"]
    assert ready["httpGet"]["path"] == "/readyz"
    assert ready["periodSeconds"] * ready["failureThreshold"] + ready["timeoutSeconds"] < notice
    for probe in ("startupProbe", "livenessProbe"):
        assert pod()["containers"][0][probe]["httpGet"]["path"] == "/healthz"


def test_the_first_container_checks_the_config(tmp_path: Path) -> None:
    """It runs what the manifest says, with the config of the manifest."""
    [check] = pod()["initContainers"]
    file = tmp_path / "toolbus.yaml"
    file.write_text(named("ConfigMap")["data"]["toolbus.yaml"])
    words = [str(file) if word == "/etc/toolbus/toolbus.yaml" else word for word in check["args"]]
    key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    done = toolbus(
        *words, "--json", folder=tmp_path, env={"POSTGRES_PASSWORD": "s3cr3t", "TOOLBUS_STORE_KEY": key}
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True
    without = toolbus(
        *words, folder=tmp_path, env={"POSTGRES_PASSWORD": "s3cr3t", "TOOLBUS_STORE_KEY": "short"}
    )
    assert without.returncode == 1
    assert "its key is not 32 bytes" in without.stdout
    assert "s3cr3t" not in without.stdout + without.stderr
