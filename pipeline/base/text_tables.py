"""Tables of texts: aligned, in GitHub's Markdown and in LaTeX. Their first column names the rows."""

import re
from collections.abc import Iterable, Sequence

from feature_store.terminal import columns

Cells = Sequence[Sequence[str]]
"""Rows of texts of one length, the titles of the columns first."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "–": "--",
    "\N{NO-BREAK SPACE}": "~",
}
"""Characters that LaTeX reads as commands, or that its fonts may lack."""

_MARKDOWN = re.compile(
    r"""
    (?P<code>(?<!`)`[^`]+`(?!`))
    | \s*[\r\n]+\s*
    | \\(?=[!-/:-@\[-`{-~])
    | [|*] | ~~
    | <(?=[A-Za-z/!?])
    | &(?=\#?\w+;)
    | \[(?=[^\]]*\]\()
    | _(?![^\W_]) | (?<![^\W_])_
    """,
    re.VERBOSE,
)
"""What ends a cell or a heading of Markdown, or is read as HTML, a link or emphasis."""


def markdown_escaped(text: str) -> str:
    """A text that Markdown shows as it stands here; in a span of code, only `|` has a meaning."""
    return _MARKDOWN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    if match["code"]:
        return match[0].replace("|", r"\|")
    return " " if match[0].isspace() else "".join(f"\\{character}" for character in match[0])


def parts(
    rows: Cells, width: int | None, gap: int = 2, order: Iterable[int] | None = None
) -> list[list[list[str]]]:
    """A table as one, or as several where it is too wide; each has the rows' names and some of the columns.

    Args:
        width: characters of a line; None: one table.
        gap: characters between two columns.
        order: of the columns behind the names, where several tables are needed; None: as they are.
    """
    widths = _widths(rows)
    if width is None or sum(widths) + gap * (len(widths) - 1) <= width:
        return [[list(row) for row in rows]]
    found = [[0]]
    for column in range(1, len(widths)) if order is None else order:
        taken = sum(gap + widths[one] for one in [*found[-1], column]) - gap
        if taken > width and len(found[-1]) > 1:
            found.append([0])
        found[-1].append(column)
    return [[[row[column] for column in part] for row in rows] for part in found]


def aligned(rows: Cells, *, names_left: bool = True) -> str:
    """Columns side by side, flush right.

    Args:
        names_left: whether the first column is flush left.
    """
    return "\n".join(map("  ".join, _justified(rows, names_left=names_left)))


def markdown(rows: Cells, width: int | None = None) -> str:
    """A table in GitHub's Markdown, aligned to be read as text, too.

    Args:
        width: characters of a line: a wider table is set as several; None: one table.
    """
    cells = [[markdown_escaped(cell) for cell in row] for row in rows]
    frame = 2 * len("| ")
    found = parts(cells, None if width is None else width - frame, len(" | "))
    return "\n\n".join(map(_markdown_table, found))


def _markdown_table(cells: Cells) -> str:
    widths = _widths(cells)
    head, *lines = [f"| {' | '.join(row)} |" for row in _justified(cells)]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:]), ""])
    return "\n".join([head, rule, *lines])


def _justified(rows: Cells, *, names_left: bool = True) -> list[list[str]]:
    widths = _widths(rows)
    found = []
    for row in rows:
        gaps = [" " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)]
        first = row[0] + gaps[0] if names_left else gaps[0] + row[0]
        found.append([first, *map(str.__add__, gaps[1:], row[1:])])
    return found


def _widths(rows: Cells) -> list[int]:
    return [max(map(columns, column)) for column in zip(*rows, strict=True)]


def latex_escaped(text: str) -> str:
    """A text that LaTeX sets as it stands here."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return escaped.replace("--", "-{}-")  # two hyphens are set as a dash


def latex(caption: str, rows: Cells, notes: Iterable[str] = (), rules: Iterable[int] = (1,)) -> str:
    """A table for a paper, its notes below; needs the package booktabs.

    Args:
        rules: rows with a line above them.
    """
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escaped(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
        r"\toprule",
    ]
    ruled = frozenset(rules)
    for number, row in enumerate(rows):
        lines += [r"\midrule"] * (number in ruled)
        lines.append(" & ".join(map(latex_escaped, row)) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {latex_escaped(note)}" for note in notes]
    return "\n".join([*lines, r"\end{table}"])
