"""Names of classes as a user's files have them: read, put in order, counted and compared."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

from feature_store.errors import BadInputError, quoted
from feature_store.sources.base import Report
from feature_store.sources.fields import check_id
from feature_store.wording import counted

_MAX_SHOWN = 20
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_MAX_NAME = 60
"""Characters of a name that a note shows."""
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_ZEROS = re.compile(r"(?<![0-9.,])0+(?=[0-9])")
_ACCENT = re.compile("[\u0300-\u036f\ufe00-\ufe0f]")
"""Marks on Latin, Greek and Cyrillic letters, and the choice between two forms of a character.

Those of other scripts are vowels, without which different words are the same.
"""
_HYPHEN = re.compile(r"(?<=\w)(?: - |- |-| -(?![0-9]))(?=\w)")
"""Between words; ` -1` is a number, and `A-` a grade."""
_MEANINGFUL = "#%&@*/\\"
"""Punctuation that may be all that two names differ in, as `C` and `C#` do."""
_LOOK_ALIKE = str.maketrans(
    "АВЕЅІЈКМНОРСТХУаеѕіјорсхуԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧνορ",
    "ABESIJKMHOPCTXYaesijopcxydqwhABEZHIKMNOPTYXvop",
)
"""Letters of Cyrillic and Greek, and the Latin ones that look the same."""


def check_label(value: object, key: str, where: str) -> str:
    """The name of a class, without blanks around it.

    Raises:
        BadInputError: if it is no whole number or text, or blank.
    """
    name = check_id(value, key, where)
    if not name.strip():
        raise BadInputError(f"expected a name as `{key}`, but got the blank text {name!r}", where=where)
    return name.strip()


def class_names(found: Collection[str], path: Path) -> tuple[str, ...]:
    """Names of the classes that a training file holds: whole numbers by their value, others by spelling.

    Raises:
        BadInputError: if there are fewer than two.
    """
    if len(found) < 2:
        raise BadInputError(
            f"a classification needs two classes or more, but got {quoted(sorted(found))}", where=str(path)
        )
    if all(_INTEGER.fullmatch(name) for name in found):
        return tuple(sorted(found, key=lambda name: (int(name), name)))
    return tuple(sorted(found))


class LabelCount:
    """Counts the classes of the training file, and labels that were written with blanks around them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._num_with_blanks = 0

    def add(self, value: object, name: str, *, is_train: bool) -> None:
        """Enter what a record holds, and the class's name that was made of it."""
        self._num_with_blanks += isinstance(value, str) and value != name
        if is_train:
            self._counts[name] += 1

    def tell(self, report: Report, names: Sequence[str], file: str) -> None:
        """Say how many training texts each class has, and which names are nearly equal."""
        shown = names
        if len(names) > _MAX_SHOWN:
            shown = [name for name, _ in self._counts.most_common(_MAX_SHOWN)]
        listed = ", ".join(f"`{_visible(name)}` {self._counts[name]}" for name in shown)
        more = f", and {len(names) - len(shown)} with fewer" if len(shown) < len(names) else ""
        report.notes.append(f"{counted(len(names), 'class')} in {file}: {listed}{more}")
        if self._num_with_blanks:
            report.notes.append(f"blanks around {counted(self._num_with_blanks, 'label')} are removed")
        for group in _nearly_equal(names):
            shown_as = _told_apart(group)
            listed = ", ".join(f"{shown_as[name]} ({counted(self._counts[name], 'text')})" for name in group)
            report.notes.append(
                f"names of classes that are nearly equal: {listed}; check that they are different classes"
            )


def _visible(name: str) -> str:
    """The beginning of a name, with escapes for the characters that nobody can see or tell from a blank."""
    return "".join(_escape(c) if _is_hidden(c) else c for c in name[:_MAX_NAME])


def _is_hidden(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("Cf", "Cc", "Zl", "Zp") or (category == "Zs" and character != " ")


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def _told_apart(names: Sequence[str]) -> dict[str, str]:
    """How each name is shown: where two look the same, with the code points of the letters beyond ASCII."""
    looks = Counter(_look(_visible(name)) for name in names)
    shown = {name: f"`{_visible(name)}`" for name in names}
    for name in names:
        code_points = "".join(c if c.isascii() else _escape(c) for c in name[:_MAX_NAME])
        if looks[_look(_visible(name))] > 1 and code_points != name[:_MAX_NAME]:
            shown[name] += f" in code points `{code_points}`"
    return shown


def _look(name: str) -> str:
    """What a name looks like: composed characters, and Latin letters for those that look like them."""
    return unicodedata.normalize("NFC", name).translate(_LOOK_ALIKE)


def _nearly_equal(names: Sequence[str]) -> list[list[str]]:
    """Groups of names that may be one name written in several ways.

    They differ in case, accents, blanks, punctuation, Unicode form or leading zeros alone, or in letters of
    another script that look the same. Numbers are nearly equal only where they have the same value.
    """
    groups: list[list[str]] = []
    owners: dict[tuple[str, object], list[str]] = {}
    for name in names:
        keys = ("spelling", _plain(name)), ("look", _plain(_look(name)))
        met = [owners[key] for key in keys if key in owners]
        group = met[0] if met else []
        if not met:
            groups.append(group)
        for other in met[1:]:
            if other is not group:
                group.extend(other)
                groups = [one for one in groups if one is not other]
                owners |= {key: group for key, owner in owners.items() if owner is other}
        group.append(name)
        owners |= dict.fromkeys(keys, group)
    return [group for group in groups if len(group) > 1]


def _plain(name: str) -> object:
    """What remains of a name without what a slip may change; of a number, its value."""
    text = unicodedata.normalize("NFKD", name).strip().replace("\u2212", "-")
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    kept = (c for c in text.casefold() if unicodedata.category(c) != "Cf" and not _ACCENT.match(c))
    plain = re.sub(r"[\s_]+", " ", "".join("-" if unicodedata.category(c) == "Pd" else c for c in kept))
    plain = _HYPHEN.sub(" ", "".join(_without_punctuation(plain)))
    plain = re.sub(r" (?![0-9])|(?<![0-9]) ", "", plain)
    return _ZEROS.sub("", plain) or text


def _without_punctuation(text: str) -> Iterator[str]:
    """The characters of a text without punctuation, but with that between digits, and signs as in `C#`."""
    for before, character, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        is_mark = unicodedata.category(character) in ("Ps", "Pe", "Pi", "Pf", "Po")
        if not is_mark or character in _MEANINGFUL or (before.isdigit() and after.isdigit()):
            yield character
