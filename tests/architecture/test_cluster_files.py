"""The files in deploy/ that describe Ray clusters: valid by their schemas, without secrets, our flags."""

import copy
import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.autoscaler._private.util import prepare_config, validate_config

from pipeline import search
from pipeline.cli import flag_values

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SCHEMA = json.loads((ROOT / "tests/data/kuberay.schema.json").read_text())
LAUNCHERS = ("aws.yaml", "gcp.yaml")
KUBERAY = ("kuberay-raycluster.yaml", "kuberay-rayjob.yaml")
VALUES = {
    "AWS_INSTANCE_PROFILE": "arn:aws:iam::000000000000:instance-profile/infocal",
    "INFOCAL_IMAGE": "registry.example/infocal-pipeline:1",
    "INFOCAL_STORAGE": "s3://bucket/path",
    "MLFLOW_TRACKING_URI": "http://mlflow.example:5000",
    "RAY_AUTH_TOKEN": "0" * 64,
}
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def text_of(name: str) -> tuple[str, str]:
    """A file's comment at its top, and the rest."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    end = re.search(r"^[^#]", text, re.M)
    assert end is not None
    return text[: end.start()], text[end.start() :]


def filled(name: str) -> dict[str, Any]:
    """A file as it is after envsubst."""
    _, body = text_of(name)
    return yaml.safe_load(_PLACEHOLDER.sub(lambda found: VALUES.get(found[1], "some-value"), body))


def prepared(config: dict[str, Any]) -> dict[str, Any]:
    """A launcher file as `ray up` reads it, checked as `ray up` does before it talks to a cloud."""
    complete = prepare_config(copy.deepcopy(config))
    validate_config(complete)
    return complete


def cluster_of(name: str) -> dict[str, Any]:
    spec = filled(name)["spec"]
    return spec.get("rayClusterSpec", spec)


@pytest.mark.parametrize("name", [*LAUNCHERS, *KUBERAY])
def test_the_command_at_the_top_fills_in_what_the_file_leaves_open(name: str):
    head, body = text_of(name)
    (named,) = re.findall(r"envsubst '([^']*)'", head)
    assert set(_PLACEHOLDER.findall(named)) == set(_PLACEHOLDER.findall(body))
    assert f"< deploy/{name}" in head


@pytest.mark.parametrize("name", [*LAUNCHERS, *KUBERAY])
def test_no_secret_stands_in_a_file(name: str):
    _, body = text_of(name)
    secret = re.compile(r"\w*(?:TOKEN|SECRET|PASSWORD|ACCESS_KEY)\w*\s*[=:]\s*(?!\$\{)\S", re.I)
    assert [line for line in body.splitlines() if secret.search(line) and "secretKeyRef" not in line] == []
    assert not re.search(r"AKIA[0-9A-Z]{16}|[0-9a-f]{32}|://[^/\s]*:[^/\s]*@", body)


# ------------------------------------------------------------------------------------------- launcher


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_file_meets_rays_schema(name: str):
    config = prepared(filled(name))
    head, gpu = (config["available_node_types"][node] for node in ("head", "gpu"))
    assert (head["resources"], head["max_workers"]) == ({"CPU": 0}, 0)
    assert (gpu["min_workers"], gpu["max_workers"], gpu["resources"]["GPU"]) == (0, config["max_workers"], 1)
    assert config["docker"]["image"] == VALUES["INFOCAL_IMAGE"]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_schema_would_find_a_misspelt_field(name: str):
    config = filled(name)
    config["available_node_types"]["gpu"]["min_worker"] = 0
    with pytest.raises(jsonschema.ValidationError, match="'min_worker' was unexpected"):
        prepared(config)


@pytest.mark.parametrize(
    ("name", "is_spot"),
    [
        ("aws.yaml", lambda node: node["InstanceMarketOptions"]["MarketType"] == "spot"),
        ("gcp.yaml", lambda node: {"preemptible": True} in node["scheduling"]),
    ],
)
def test_nodes_with_a_gpu_are_spot_and_the_head_is_not(name: str, is_spot: Any):
    types = filled(name)["available_node_types"]
    assert is_spot(types["gpu"]["node_config"])
    assert {"InstanceMarketOptions", "scheduling"}.isdisjoint(types["head"]["node_config"])


@pytest.mark.parametrize("name", LAUNCHERS)
def test_nodes_ask_for_a_token_and_know_the_server(name: str):
    config = filled(name)
    options = " ".join(config["docker"]["run_options"])
    for variable, value in (("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN", VALUES["RAY_AUTH_TOKEN"])):
        assert f"--env {variable}={value}" in options
    assert f"--env MLFLOW_TRACKING_URI={VALUES['MLFLOW_TRACKING_URI']}" in options
    start = config["head_start_ray_commands"][-1]
    # the dashboard is reached through ssh alone; a trial on the head would find no GPU
    assert "--dashboard-host=127.0.0.1" in start and "--num-cpus=0" in start


# -------------------------------------------------------------------------------------------- KubeRay


@pytest.mark.parametrize("name", KUBERAY)
def test_a_kuberay_file_meets_the_schema(name: str):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(filled(name), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["spec", "rayClusterSpec", "workerGroupSpecs", 0, "maxReplica"], 4),
        (["spec", "rayClusterSpec", "workerGroupSpecs", 0, "minReplicas"], "0"),
        (["spec", "rayClusterSpec", "headGroupSpec", "rayStartParams", "num-cpus"], 0),
        (["spec", "rayClusterSpec", "authOptions", "mode"], "tokens"),
        (["spec", "shutdownAfterJobFinishes"], False),
        (["spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers"], []),
        (["kind"], "RayJobs"),
    ],
)
def test_the_kuberay_schema_would_find_a_mistake(path: list[Any], value: Any):
    document = filled("kuberay-rayjob.yaml")
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError, match=str(path[-1])):
        jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize("name", KUBERAY)
def test_rays_autoscaler_reads_the_groups_as_meant(name: str):
    """By the code that the operator's side-car runs: what it starts, and what it takes a node for."""
    resource = {"metadata": {"name": "infocal", "namespace": "default"}, "spec": cluster_of(name)}
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(resource)
    head, gpu = (config["available_node_types"][group] for group in (config["head_node_type"], "gpu"))
    assert (head["resources"]["CPU"], head["max_workers"]) == (0, 0)
    assert (gpu["min_workers"], gpu["max_workers"], gpu["resources"]["GPU"]) == (0, 4, 1)
    assert config["idle_timeout_minutes"] == 10


def test_a_job_brings_the_cluster_that_stands_in_the_other_file():
    assert cluster_of("kuberay-rayjob.yaml") == cluster_of("kuberay-raycluster.yaml")


def test_the_operators_secret_does_not_replace_ours():
    """It names the token's secret like the cluster."""
    named = set(re.findall(r"secretKeyRef: \{name: ([\w-]+)", text_of("kuberay-raycluster.yaml")[1]))
    assert named == {"infocal-settings"}
    assert filled("kuberay-raycluster.yaml")["metadata"]["name"] not in named


def test_the_files_name_the_pinned_ray():
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    assert {cluster_of(name)["rayVersion"] for name in KUBERAY} == {pins["ray"]}


# ------------------------------------------------------------------------------------------ our flags


def test_the_jobs_entrypoint_is_a_search_that_our_parser_takes():
    words = shlex.split(filled("kuberay-rayjob.yaml")["spec"]["entrypoint"])
    assert words[:3] == ["python", "-m", "pipeline.search"]
    given = search.build_parser().parse_args(words[3:])
    assert (given.storage, given.gpus_per_trial) == (VALUES["INFOCAL_STORAGE"], flag_values.AUTO)


def searches_in(page: str) -> list[str]:
    """The search commands of a page, continued lines joined, without comments."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"python -m pipeline\.search ((?:[^\s#`]|[ ](?!#))+)", text)


@pytest.mark.parametrize("flags", searches_in("docs/cluster.md"))
def test_the_pages_searches_are_taken_by_our_parser(flags: str):
    words = [word for word in shlex.split(flags) if word not in ("...", "…")]
    search.build_parser().parse_args(words)


def test_the_page_shows_searches_and_names_every_file():
    assert searches_in("docs/cluster.md")
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    assert [name for name in (*LAUNCHERS, *KUBERAY) if f"deploy/{name}" not in page] == []
