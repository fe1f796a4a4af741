"""Texts that describe the classes of a target, such as the articles of a law: a JSON file of the user's.

`{"264": "text of article 264", ...}`, the names of the classes as the data set gives them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store.errors import BadInputError, MissingDataError, RequestError, quoted, shown
from feature_store.task_info import TaskInfo
from feature_store.tokenize import make_tokenizer
from feature_store.wording import counted

if TYPE_CHECKING:
    from feature_store.store import Features  # pyarrow takes 0.4 s that --help need not wait for

MAX_BYTES = 64 * 2**20
"""No file is longer; the criminal law of China has a quarter of a megabyte."""
_FORMAT = 'a JSON object, {"CLASS": "TEXT", ...}'


def read_class_texts(path: Path) -> dict[str, str]:
    """The texts by the name of their class.

    Raises:
        MissingDataError: if there is no such file.
        BadInputError: if it cannot be read, or is not such an object.
    """
    where = str(path)
    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "it does not exist"
        raise MissingDataError(f"expected a file, but {what}", where=where, hint=f"the file holds {_FORMAT}")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise BadInputError(f"expected at most {MAX_BYTES} bytes, but there are more", where=where)
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_twins)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=where) from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"not UTF-8: {error}", where=where) from error
    except json.JSONDecodeError as error:
        raise BadInputError(f"not JSON: {error.msg}", where=f"{where}:{error.lineno}") from error
    except RecursionError as error:
        raise BadInputError("not JSON: nested too deeply", where=where) from error
    except ValueError as error:
        raise BadInputError(str(error), where=where) from error
    if not isinstance(found, dict) or not found:
        raise BadInputError(f"expected {_FORMAT}, but got {shown(found)}", where=where)
    for name, text in found.items():
        if not isinstance(text, str) or not text.strip():
            raise BadInputError(f"expected a text for the class `{name}`, but got {shown(text)}", where=where)
    return found


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the class `{twice}` has two texts")
    return found


def class_words(features: "Features", target: str, path: Path) -> tuple[tuple[int, ...], ...]:
    """The words of the text of each class of a target, as numbers of the features' vocabulary.

    The texts are split as the texts of the features are. A word that no training text has is the unknown one.

    Args:
        target: one of several, or the only one.

    Raises:
        RequestError: if there is no such target, or it has no classes.
        MissingDataError, BadInputError: as `read_class_texts`; also where a class has no text, or a text has
            no word of the vocabulary.
    """
    names = _class_names(features.task, target)
    texts = read_class_texts(path)
    where = str(path)
    if missing := [name for name in names if name not in texts]:
        classes = counted(len(names), "class")
        raise BadInputError(
            f"{len(missing)} of the {classes} of `{target}` have no text: {quoted(missing, 5)}",
            where=where,
            hint=f"add the missing texts; the file has texts for {quoted(texts, 5)}",
        )
    tokenize = make_tokenizer(features.tokenizer, features.tokenizer_files)
    vocabulary, found = features.vocabulary, []
    for name in names:
        words = [token.text for token in tokenize(texts[name])]
        if not any(word in vocabulary for word in words):
            raise BadInputError(
                f"no word in the text of class `{name}` occurs in a training text",
                where=where,
                hint="the texts must be in the language of the data set",
            )
        found.append(tuple(vocabulary.encode(words)))
    return tuple(found)


def _class_names(task: TaskInfo, target: str) -> tuple[str, ...]:
    known: Mapping[str, TaskInfo] = {one.name: one for one in (task, *task.sides)}
    if target not in known:
        raise RequestError(f"no target `{target}`; the targets are {quoted(known)}")
    if (names := known[target].class_names) is None:
        raise RequestError(f"the target `{target}` is a score: it has no classes that texts could describe")
    return names
