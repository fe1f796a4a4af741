"""Names of classes as a user's files have them: read, put in order, counted and compared."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from feature_store.errors import BadInputError, quoted
from feature_store.sources.base import Report
from feature_store.sources.fields import check_id
from feature_store.wording import counted

_MAX_SHOWN = 20
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")


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
            listed = ", ".join(
                f"`{_visible(name)}` ({counted(self._counts[name], 'text')})" for name in group
            )
            report.notes.append(
                f"names of classes that are nearly equal: {listed}; check that they are different classes"
            )


def _visible(name: str) -> str:
    """The beginning of a name, with escapes for the characters that nobody can see or tell from a blank."""
    return "".join(_escaped(character) for character in name[:60])


def _escaped(character: str) -> str:
    is_hidden = unicodedata.category(character) in ("Cf", "Cc", "Zl", "Zp")
    is_other_blank = character != " " and unicodedata.category(character) == "Zs"
    return f"\\u{ord(character):04x}" if is_hidden or is_other_blank else character


def _nearly_equal(names: Sequence[str]) -> list[list[str]]:
    """Groups of names that differ in case, blanks, joining marks, Unicode form or leading zeros alone."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        plain = unicodedata.normalize("NFKC", name).casefold()
        plain = "".join(c for c in plain if unicodedata.category(c) != "Cf")
        groups[_ZEROS.sub("", re.sub(r"[\s_-]+", " ", plain).strip() or plain)].append(name)
    return [group for group in groups.values() if len(group) > 1]
