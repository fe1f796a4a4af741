"""Every command that loads the large packages shows on a terminal what it does meanwhile."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGE = ("pipeline.tracking", "pipeline.training", "pipeline.comparing", "pipeline.study", "mlflow", "torch")
QUICK = {
    "pipeline.study.cluster",
    "pipeline.study.criterion",
    "pipeline.study.ended_study",
    "pipeline.study.study_folder",
    "pipeline.study.summary",
    "pipeline.training",
    "pipeline.training.columns",
    "pipeline.training.data_options",
    "pipeline.training.settings",
}
"""Modules of those rooms without torch, ray and mlflow."""
ELSEWHERE = {
    "demo": "it serves pages; `pipeline/showing/host.py` loads the models before",
    "judge": "it serves pages, and prints where",
    "relocate": "it reads one database",
    "score": "it reads files, and loads nothing large",
}
FILES = sorted(path for path in (ROOT / "pipeline").glob("*.py") if path.stem != "__main__")
COMMANDS = [path.stem for path in FILES if "run_command(main)" in path.read_text()]


def is_large(node: ast.stmt) -> bool:
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return False
    modules = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return any(name.startswith(LARGE) for name in modules) and not modules & QUICK


def is_shown(node: ast.With) -> bool:
    return any("terminal.step(" in ast.unparse(item.context_expr) for item in node.items)


def imports_out_of_sight(function: ast.FunctionDef) -> list[str]:
    """Imports of a function that no step of the terminal is around."""
    found = []
    waiting: list[tuple[ast.AST, bool]] = [(function, False)]
    while waiting:
        node, shown = waiting.pop()
        shown = shown or (isinstance(node, ast.With) and is_shown(node))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt) and is_large(child) and not shown:
                found.append(ast.unparse(child))
            waiting.append((child, shown))
    return found


def test_the_commands_are_found():
    assert {"search", "evaluate", "reproduce", "promote", "explain", "report"} <= set(COMMANDS)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - set(ELSEWHERE)))
def test_something_moves_while_a_command_loads(command: str):
    module = ast.parse((ROOT / "pipeline" / f"{command}.py").read_text())
    main = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    assert imports_out_of_sight(main) == []
    assert "terminal.opened()" in ast.unparse(main)


def test_something_moves_while_the_demo_loads_its_models():
    module = ast.parse((ROOT / "pipeline" / "showing" / "host.py").read_text())
    serve = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "serve")
    (loading,) = [node for node in ast.walk(serve) if isinstance(node, ast.With) and is_shown(node)]
    assert "models.load(" in ast.unparse(loading)
    assert "terminal.opened()" in ast.unparse(loading.items[0])


def test_an_import_out_of_sight_is_noticed():
    shown = "with terminal.step('x'):\n        import torch"
    text = f"def main():\n    from pipeline.tracking import model_registry\n    {shown}"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert imports_out_of_sight(function) == ["from pipeline.tracking import model_registry"]
