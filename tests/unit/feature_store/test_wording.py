"""A count and its noun agree, wherever a user reads them."""

import ast
import re
from pathlib import Path

import pytest

from feature_store.wording import counted

ROOT = Path(__file__).parents[3]
NOUNS = (
    "annotators|answers|articles|cells|charges|classes|columns|documents|entries|epochs|folders|judges|labels"
    "|lines|methods|posts|reviews|rows|seeds|showings|texts|tokens|trainings|trials|values|words"
)
AFTER_A_COUNT = re.compile(rf"^ (?!of |are )(?:[a-z-]+ ){{0,2}}?(?:{NOUNS})\b")
OF_ALL = re.compile(r"\b(?:of|all|the|these|last|first)(?: the| its)? $")
"""Before a number of all there are: `1 of 3 texts`, `none of the 3 texts`."""
CONSTANT = re.compile(r"(\w+\.)*_?[A-Z][A-Z_]+")
NEVER_ONE = {
    "pipeline/study/packing.py": "{chosen.num_trials} trials",  # 1 has words of its own
    "feature_store/sources/beer_pool.py": "{counts['pool']} reviews",  # hundreds, or a message of its own
    "feature_store/cail_recipes.py": "",  # names of classes: months of the penal code
    "pipeline/reporting/pages.py": "{findings.num_seeds} seeds",  # a spread takes two
    "pipeline/reporting/weight_shares.py": "{percent(",
    "pipeline/tracking/record.py": "{run.run_id} logged",
}


@pytest.mark.parametrize(
    ("number", "one", "several", "said"),
    [
        (1, "text", None, "1 text"),
        (0, "text", None, "0 texts"),
        (2, "training text", None, "2 training texts"),
        (1, "class", None, "1 class"),
        (3, "class", None, "3 classes"),
        (2, "entry", None, "2 entries"),
        (2, "key", None, "2 keys"),
        (1, "text is", "texts are", "1 text is"),
        (7, "text is", "texts are", "7 texts are"),
        (1.0, "epoch", None, "1 epoch"),
        (1.5, "epoch", None, "1.5 epochs"),
    ],
)
def test_a_count_and_its_noun_agree(number: float, one: str, several: str | None, said: str):
    assert counted(number, one, several, spec="g") == said


def test_thousands_may_be_set_apart():
    assert counted(12345, "text", spec=",") == "12,345 texts"


def plural_after_any_number(path: Path) -> list[str]:
    """Where an f-string puts a plural after a number that may be 1."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part, after in zip(node.values, [*node.values[1:], ast.Constant("")], strict=True):
            if isinstance(part, ast.Constant):
                before = str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            is_said = isinstance(after, ast.Constant) and AFTER_A_COUNT.match(str(after.value))
            name = ast.unparse(part.value)
            is_exempt = OF_ALL.search(before) or CONSTANT.fullmatch(name) or "counted(" in name
            if is_said and not is_exempt:
                found.append(f"{{{name}}}{str(after.value)[:30]}")
            before = ""
    return found


@pytest.mark.parametrize("room", ["feature_store", "pipeline", "search_spaces"])
def test_no_message_says_1_texts(room: str):
    found = {}
    for path in sorted((ROOT / room).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        counts = plural_after_any_number(path)
        counts = [one for one in counts if name not in NEVER_ONE or not one.startswith(NEVER_ONE[name])]
        if counts:
            found[name] = counts
    assert found == {}, "say it with feature_store.wording.counted"


def test_the_search_for_plurals_finds_one(tmp_path: Path):
    path = tmp_path / "module.py"
    said = "{len(x)} texts, {n} of {m} texts, {counted(n, 'text')}, none of the {m} words"
    path.write_text(f'a = f"{said}"\n')
    assert plural_after_any_number(path) == ["{len(x)} texts, "]


LOGGED = re.compile(rf"(?<!of )(?<!the )(?<!these )(?<!no )%d (?:[a-z-]+ )?(?:{NOUNS})\b")


def test_no_line_of_a_log_says_1_texts():
    """They have their numbers after the format: `%d texts`."""
    paths = [path for room in ("feature_store", "pipeline") for path in (ROOT / room).rglob("*.py")]
    logged = {path.name: LOGGED.findall(path.read_text()) for path in paths}
    assert {name: found for name, found in logged.items() if found} == {}
    assert LOGGED.findall("%d texts, %d of %d words, %d training texts") == ["%d texts", "%d training texts"]
