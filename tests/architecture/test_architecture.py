"""The rules of the house, held over the source text of every room."""

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("pipeline", "search_spaces", "infocal", "feature_store")
MAX_FUNCTION_LINES = 80
MAX_FILE_LINES = 600
MAX_COMMAND_LINES = 100

FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
HEAVY = ("torch", "ray", "mlflow", "optuna")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def at(path: Path, node: ast.stmt | ast.expr | ast.excepthandler) -> str:
    return f"{label(path)}:{node.lineno}"


def imported_roots(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def is_command(path: Path) -> bool:
    """Whether `python -m` runs it: it has a line `if __name__ == "__main__"`."""
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in parse(path).body
    )


def last_name(func: ast.expr) -> str:
    """`open` of `open(...)`, `load` of `torch.load(...)`."""
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


each_file = pytest.mark.parametrize("path", FILES, ids=label)
each_room = pytest.mark.parametrize("room", ROOMS)


@each_room
def test_every_room_is_there(room: str):
    assert (ROOT / room / "__init__.py").is_file()


# ------------------------------------------------------------------------------------------- imports


def test_import_contracts_hold():
    command = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = run_python(command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_contracts_have_no_exception():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["type"] for contract in contracts} == {
        "layers",
        "forbidden",
        "protected",
        "acyclic_siblings",
    }
    assert [contract["name"] for contract in contracts if "ignore_imports" in contract] == []


IMPORT_ALONE = """
import importlib, json, sys
room, names = sys.argv[1], json.loads(sys.argv[2])
failed = []
for name in names:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == room]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
print(json.dumps({"failed": failed, "loaded": sorted({m.partition(".")[0] for m in sys.modules})}))
"""


# imported on demand, by a module that says so where its package is missing
OPTIONAL = {"infocal.kernels.rcnn_triton": "triton"}


@pytest.mark.parametrize(
    ("room", "absent"),
    [
        ("pipeline", set()),
        ("search_spaces", {"ray", "mlflow"}),
        ("infocal", {"ray", "optuna", "mlflow", "polars", "pyarrow"}),
        ("feature_store", {"torch", "ray", "optuna", "mlflow"}),
    ],
)
def test_modules_import_alone(room: str, absent: set[str]):
    """Each module as the first of its room: no order of imports matters.

    Libraries stay loaded, for speed, and so do the rooms below: none of them imports this one.
    """
    names = [module_name(path) for path in FILES if path.relative_to(ROOT).parts[0] == room]
    names = [name for name in names if name not in OPTIONAL or importlib.util.find_spec(OPTIONAL[name])]
    done = run_python(IMPORT_ALONE, room, json.dumps(names))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["failed"] == []
    assert absent & set(answer["loaded"]) == set()


HELP = """
import runpy, sys
module, heavy = sys.argv[1], sys.argv[2].split(",")
sys.argv = [module, "--help"]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as leave:
    loaded = [name for name in heavy if name in sys.modules]
    raise SystemExit(f"--help loaded {loaded}" if loaded else leave.code)
"""


@pytest.mark.parametrize("path", [path for path in FILES if is_command(path)], ids=label)
def test_help_comes_before_heavy_imports(path: Path):
    done = run_python(HELP, module_name(path).removesuffix(".__main__"), ",".join(HEAVY))
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


# compiles a file at first use, keeps it in the user's cache and says in the log which form runs
COMPILES = ROOT / "infocal" / "kernels"
# uses that package, which is imported where a model of it is built, or an explanation computed
BUILDS = {
    "infocal/nn/transformer.py": {"transformers"},
    "infocal/splitting.py": {"tokenizers"},
    "infocal/nn/captum_explaining.py": {"captum"},
}


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.is_relative_to(ROOT / "infocal") and not p.is_relative_to(COMPILES)],
    ids=label,
)
def test_infocal_computes_and_does_nothing_else(path: Path):
    """No file, no log, no process: whoever calls it decides where results go."""
    tree = parse(path)
    foreign = imported_roots(tree) - sys.stdlib_module_names - {"torch", "numpy", "jaxtyping", "infocal"}
    assert foreign == BUILDS.get(label(path), set())
    at_import = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    assert imported_roots(at_import).isdisjoint(foreign)
    effects = {
        "logging",
        "io",
        "os",
        "pathlib",
        "shutil",
        "tempfile",
        "pickle",
        "subprocess",
        "socket",
        "urllib",
    }
    assert imported_roots(tree) & effects == set()
    touching = {"open", "print", "input", "save", "load", "savez", "fromfile", "tofile", "memmap"}
    touching |= {"read_text", "write_text", "read_bytes", "write_bytes"}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [at(path, call) for call in calls if last_name(call.func) in touching] == []


@each_file
def test_annotations_are_real(path: Path):
    """jaxtyping checks shapes through real annotations; the future import would make strings of them."""
    futures = [
        node for node in parse(path).body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    assert [at(path, node) for node in futures] == []


def test_shapes_are_checked_at_run_time():
    """The jaxtyping hook of pyproject.toml is on, so a signature with a wrong shape fails its tests."""
    losses = importlib.import_module("infocal.losses")  # here, not above: the hook must come first
    with pytest.raises(jaxtyping.TypeCheckError, match="sigma"):
        losses.mutual_information(torch.zeros(2, 3), torch.ones(2, 4))


def test_registered_models_of_older_versions_find_what_they_import():
    """MLflow keeps `served_model.py` as it was, beside each model."""
    kept = {"checkpoints": ["load_package"]}
    kept["explainer"] = ["ExplainedToken", "Explainer", "Explanation", "NoTokenError"]
    for name, parts in kept.items():
        old = importlib.import_module(f"pipeline.{name}")
        new = importlib.import_module(f"pipeline.training.{name}")
        assert [getattr(old, part) for part in parts] == [getattr(new, part) for part in parts]


# ------------------------------------------------------------------------------------ the sealed split


@each_file
def test_only_scoring_reads_the_test_split(path: Path):
    reads = [
        at(path, node)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and last_name(node.func) in {"split", "table"}
        and any(isinstance(value, ast.Constant) and value.value == "test" for value in arguments(node))
    ]
    assert reads == [] or label(path) == "pipeline/training/scoring.py"


def arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


# --------------------------------------------------------------------------------------- text and size


def public_definitions(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    for node in body:
        if (
            isinstance(node, Function | ast.ClassDef)
            and not node.name.startswith("_")
            and not is_variant(node)
        ):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


def is_variant(node: Function | ast.ClassDef) -> bool:
    """Overloads and setters: their text stands on the function that they vary."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "setter", "override"})


@each_file
def test_public_names_are_documented(path: Path):
    tree = parse(path)
    assert ast.get_docstring(tree), f"{label(path)} does not say what it is for"
    silent = [
        f"{at(path, node)} {node.name}"
        for node in public_definitions(tree.body)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def code_lines(node: Function) -> int:
    """Lines of a function without its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        text = node.body[0]
        lines -= (text.end_lineno or text.lineno) - text.lineno + 1
    return lines


@each_file
def test_functions_and_files_stay_short(path: Path):
    functions = [node for node in ast.walk(parse(path)) if isinstance(node, Function)]
    long = {f"{at(path, f)} {f.name}": code_lines(f) for f in functions if code_lines(f) > MAX_FUNCTION_LINES}
    assert long == {}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("path", sorted((ROOT / "pipeline").glob("*.py")), ids=label)
def test_commands_are_doors(path: Path):
    """A command parses its flags, checks them and calls; the work is done in the room of its subject."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_COMMAND_LINES


@each_file
def test_no_error_is_swallowed(path: Path):
    assert [at(path, node) for node in ast.walk(parse(path)) if swallows(node)] == []


def swallows(node: ast.AST) -> bool:
    """A bare except, an `except Exception` that does nothing, `suppress(Exception)`."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "suppress" and any(map(is_broad, node.args))
    if not isinstance(node, ast.ExceptHandler):
        return False
    return node.type is None or (is_broad(node.type) and all(does_nothing(line) for line in node.body))


def is_broad(caught: ast.expr) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(last_name(kind) in {"Exception", "BaseException"} for kind in kinds)


def does_nothing(line: ast.stmt) -> bool:
    return isinstance(line, ast.Pass | ast.Continue) or (
        isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    )


# ------------------------------------------------------------- the rules above find what they look for


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("try:\n    f()\nexcept:\n    raise", True),
        ("try:\n    f()\nexcept Exception:\n    pass", True),
        ("try:\n    f()\nexcept (OSError, Exception):\n    ...", True),
        ("with contextlib.suppress(BaseException):\n    f()", True),
        ("try:\n    f()\nexcept Exception as error:\n    report(error)", False),
        ("try:\n    f()\nexcept OSError:\n    pass", False),
        ("with contextlib.suppress(FileNotFoundError):\n    f()", False),
    ],
)
def test_swallowing_is_recognised(source: str, expected: bool):
    assert any(map(swallows, ast.walk(ast.parse(source)))) is expected


def test_length_leaves_out_the_docstring():
    function = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    a = 1\n    return a').body[0]
    assert isinstance(function, ast.FunctionDef)
    assert code_lines(function) == 3


def test_public_definitions_reach_into_classes():
    tree = ast.parse(
        "class A:\n    def b(self): ...\n    def _c(self): ...\nclass _D:\n    def e(self): ...\n"
    )
    assert [node.name for node in public_definitions(tree.body)] == ["A", "b"]
