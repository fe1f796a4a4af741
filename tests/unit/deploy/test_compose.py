"""docker-compose.yml as the real Docker Compose reads it: accepted, closed to outsiders, without secrets."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pipeline.search import build_parser
from pipeline.study import cluster

ROOT = Path(__file__).resolve().parents[3]
SECRETS = ("POSTGRES_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "RAY_AUTH_TOKEN")
OURS = {"prepare", "mlflow", "ray-head", "ray-worker", "ray-worker-gpu", "search", "optuna-dashboard"}


def compose(*arguments: str, without: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Docker Compose of this environment, with every secret set but `without`."""
    program = shutil.which("docker-compose", path=str(Path(sys.executable).parent))
    assert program, "docker-compose is missing: pip install -e '.[test]' -c constraints.txt brings it"
    secrets = {name: f"value of {name}" for name in SECRETS if name != without}
    return subprocess.run(
        [program, "--env-file", os.devnull, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **secrets, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def resolved(**variables: str) -> dict[str, Any]:
    """The whole file with every profile, as Compose understands it."""
    done = compose("--profile", "*", "config", "--format", "json", **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return resolved()["services"]


@pytest.mark.parametrize("profiles", [(), ("search",), ("gpu",), ("dashboard",), ("*",)])
def test_compose_accepts_the_file(profiles: tuple[str, ...]):
    done = compose(*(word for profile in profiles for word in ("--profile", profile)), "config", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_compose_accepts_what_try_compose_lays_over_it():
    files = ("--file", "docker-compose.yml", "--file", "deploy/podman/compose.yml")
    done = compose(*files, "--profile", "*", "config", "-q")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_key_is_refused(tmp_path: Path):
    """What the test above is worth: this Compose does check against its schema."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    (tmp_path / "compose.yml").write_text(text.replace("retries:", "retires:"), encoding="utf-8")
    done = compose("--file", str(tmp_path / "compose.yml"), "config", "-q")
    assert done.returncode != 0 and "retires" in done.stderr


@pytest.mark.parametrize("missing", SECRETS)
@pytest.mark.parametrize("given", ["unset", "empty"])
def test_a_missing_secret_is_refused_by_its_name(missing: str, given: str):
    done = compose("config", "-q", without=missing, **({missing: ""} if given == "empty" else {}))
    assert done.returncode != 0
    assert f"{missing} is missing a value: {missing} is not set, see .env.example" in done.stderr
    assert not [name for name in SECRETS if name != missing and name in done.stderr]


def test_the_example_lists_every_variable_and_leaves_secrets_empty():
    done = compose("config", "--variables", "--format", "json")
    assert done.returncode == 0, done.stderr
    variables = json.loads(done.stdout)
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert {name for name, one in variables.items() if one["Required"]} == set(SECRETS)
    assert sorted(re.findall(r"^([A-Z]\w*)=(.*)$", example, re.M)) == [(name, "") for name in sorted(SECRETS)]
    commented = dict(re.findall(r"^#([A-Z]\w*)=(.*)$", example, re.M))
    assert commented.keys() == variables.keys() - set(SECRETS)
    shown = {name: variables[name]["DefaultValue"] for name, value in commented.items() if value}
    assert shown == {name: value for name, value in commented.items() if value}


def test_the_example_is_filled_in_by_the_commands_that_it_shows(tmp_path: Path):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    shutil.copy(ROOT / ".env.example", tmp_path)
    commands = re.search(r"^#   cp .*?^#   done$", example, re.M | re.S)
    assert commands
    script = re.sub(r"^#   ", "", commands.group(), flags=re.M)
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True)
    values = dict(re.findall(r"^([A-Z]\w*)=(.*)$", (tmp_path / ".env").read_text(encoding="utf-8"), re.M))
    assert values.keys() == set(SECRETS) and len(set(values.values())) == len(SECRETS)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in values.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_git_ignores_the_secrets_and_no_image_holds_them():
    assert "\n.env\n" in (ROOT / ".gitignore").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*" and "!.env" not in ignored


# -------------------------------------------------------------------------------------------- services


def test_ports_are_open_on_this_machine_alone(services: dict[str, dict[str, Any]]):
    published = {
        name: (port["host_ip"], port["published"], port["target"])
        for name, one in services.items()
        for port in one.get("ports", [])
    }
    assert published == {
        "mlflow": ("127.0.0.1", "5000", 5000),
        "s3": ("127.0.0.1", "7070", 7070),
        "ray-head": ("127.0.0.1", "8265", 8265),
        "optuna-dashboard": ("127.0.0.1", "8080", 8080),
    }
    assert all("network_mode" not in one for one in services.values())


def test_another_port_is_also_another_allowed_host():
    server = resolved(MLFLOW_PORT="5999")["services"]["mlflow"]
    assert server["ports"][0]["published"] == "5999"
    hosts = next(word for word in server["command"] if word.startswith("--allowed-hosts="))
    assert {"127.0.0.1:5999", "localhost:5999", "mlflow:5000"} <= set(hosts.partition("=")[2].split(","))


def test_every_server_has_a_health_check_a_limit_and_comes_back(services: dict[str, dict[str, Any]]):
    servers = services.keys() - {"prepare", "search"}
    assert [name for name in servers if "healthcheck" not in services[name]] == []
    assert [name for name in servers if services[name].get("restart") != "unless-stopped"] == []
    assert [name for name in servers if "mem_limit" not in services[name]] == []


def test_whoever_waits_waits_until_the_other_is_ready(services: dict[str, dict[str, Any]]):
    waits = {
        name: {other: how["condition"] for other, how in one["depends_on"].items()}
        for name, one in services.items()
        if "depends_on" in one
    }
    healthy, done = "service_healthy", "service_completed_successfully"
    assert waits == {
        "prepare": {"postgres": healthy, "s3": healthy},
        "mlflow": {"prepare": done},
        "ray-worker": {"ray-head": healthy},
        "ray-worker-gpu": {"ray-head": healthy},
        "search": {"mlflow": healthy, "ray-head": healthy},
        "optuna-dashboard": {"prepare": done},
    }


def test_ray_asks_for_the_token_everywhere(services: dict[str, dict[str, Any]]):
    for name in ("ray-head", "ray-worker", "ray-worker-gpu", "search"):
        given = services[name]["environment"]
        assert (given["RAY_AUTH_MODE"], given["RAY_AUTH_TOKEN"]) == ("token", "value of RAY_AUTH_TOKEN")


def test_no_command_holds_a_secret(services: dict[str, dict[str, Any]]):
    assert [name for name, one in services.items() if "value of" in " ".join(one.get("command") or [])] == []


def test_images_of_others_are_pinned(services: dict[str, dict[str, Any]]):
    others = {name: one["image"] for name, one in services.items() if name not in OURS}
    assert others.keys() == {"postgres", "s3"}
    assert all(re.fullmatch(r"[\w./-]+:v?\d[\w.-]*", image) for image in others.values())


def test_ours_are_one_image_without_privileges(services: dict[str, dict[str, Any]]):
    ours = [services[name] for name in OURS]
    assert {one["image"] for one in ours} == {"infocal-pipeline"}
    assert {one["build"]["dockerfile"] for one in ours} == {"deploy/Dockerfile"}
    assert all(one["cap_drop"] == ["ALL"] and one["init"] for one in ours)


def test_the_gpu_worker_reserves_devices(services: dict[str, dict[str, Any]]):
    reserved = services["ray-worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert reserved == [{"capabilities": ["gpu"], "driver": "nvidia", "count": -1}]  # -1: all
    some = resolved(RAY_WORKER_GPUS="2")["services"]["ray-worker-gpu"]
    assert some["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 2
    assert "ray-worker-gpu" not in json.loads(compose("config", "--format", "json").stdout)["services"]


def test_the_search_is_one_that_pipeline_search_accepts(services: dict[str, dict[str, Any]]):
    search = services["search"]
    assert search["entrypoint"] == ["join-cluster"]
    assert search["command"][:3] == ["python", "-m", "pipeline.search"]
    given = build_parser().parse_args(search["command"][3:])
    assert given.sample and given.tracking_uri is None and given.address is None
    assert given.storage == "s3://infocal/results"
    assert given.optuna_storage == services["optuna-dashboard"]["command"][-1]
    assert search["environment"]["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert search["environment"]["RAY_ADDRESS"] == "ray-head:6379"


def test_real_data_are_mounted_for_reading(tmp_path: Path):
    mounts = resolved(INFOCAL_DATA=str(tmp_path))["services"]["search"]["volumes"]
    data = next(one for one in mounts if one["target"] == "/data")
    assert (data["type"], data["source"], data["read_only"]) == ("bind", str(tmp_path), True)


# ----------------------------------------------------------------------------------------------- image


def dockerfile() -> str:
    """The instructions of deploy/Dockerfile, a line each."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    return re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M))


def test_the_image_does_not_run_as_root():
    text = dockerfile()
    assert re.findall(r"^USER (\S+)$", text, re.M) == ["infocal"]
    assert text.index("\nUSER ") > text.rindex("\nRUN ")


def test_every_installed_package_is_pinned():
    """One installation has no constraints: that of our own package, whose dependencies are there already."""
    installs = re.findall(r"pip install ([^&\n]+)", dockerfile())
    assert len(installs) == 3
    assert [one.strip() for one in installs if "-c constraints.txt" not in one] == ["--no-deps ."]


def test_the_image_gets_every_package_and_its_context_has_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    copied = {name for line in re.findall(r"^COPY (.+)$", dockerfile(), re.M) for name in line.split()[:-1]}
    copied = {name for name in copied if not name.startswith("--")}
    assert packages <= copied
    context = set((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
    assert {name for name in copied if f"!{name}" not in context} == set()
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_workers_have_the_settings_that_a_search_sets_for_its_own(monkeypatch: pytest.MonkeyPatch):
    """A cluster's workers run before the search and do not inherit from it."""
    names = ("OMP_WAIT_POLICY", "GLIBC_TUNABLES", "RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED", "DO_NOT_TRACK")
    monkeypatch.setattr(os, "environ", {})
    cluster.prepare_environment()
    words = " ".join(re.findall(r"^ENV (.+)$", dockerfile(), re.M)).split()
    image = dict(word.split("=", 1) for word in words)
    assert {name: image.get(name) for name in names} == {name: os.environ[name] for name in names}
