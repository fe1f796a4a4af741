"""A comparison's table as Markdown and as LaTeX; its page is made by `pages`."""

import re
from collections.abc import Sequence

from pipeline.reporting.paper_tables import PaperSection, PaperTable
from pipeline.reporting.standings import Row, Standings

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


def markdown(table: Standings, width: int | None = None) -> str:
    """The table in GitHub's Markdown, its notes below; columns are aligned to be read as text, too.

    Args:
        width: characters of a line: a wider table is set as several, each with all rows; None: one table.
    """
    head = ["rationales", *table.header()]
    rows = [[_named(row), *table.texts(row)] for row in table.rows]
    cells = [[markdown_escaped(cell) for cell in line] for line in [head, *rows]]
    widths = _widths(cells)
    parts: list[list[int]] = [[0]]
    for column in range(1, len(head)):
        taken = sum(3 + widths[one] for one in [*parts[-1], column]) + 1
        if width is not None and taken > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(column)
    tables = [_markdown_table([[line[column] for column in part] for line in cells]) for part in parts]
    set_parts = ["\n".join(lines) for lines in tables]
    notes = [f"- {note}" for note in [*table.used_marks(), *table.notes]]
    return "\n".join([f"### {markdown_escaped(table.title)}", "", "\n\n".join(set_parts), "", *notes])


def _widths(cells: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _markdown_table(cells: list[list[str]]) -> list[str]:
    widths = _widths(cells)
    head, *rows = [_markdown_line(line, widths) for line in cells]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:]), ""])
    return [head, rule, *rows]


def _markdown_line(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = [*zip(line, widths, strict=True)]
    return " | ".join([f"| {first[0]:<{first[1]}}", *(f"{cell:>{w}}" for cell, w in rest)]) + " |"


def _named(row: Row) -> str:
    return f"{row.name} {row.marks}" if row.marks else row.name


def escaped(text: str) -> str:
    """A text that LaTeX sets as it stands here."""
    return "".join(_LATEX.get(character, character) for character in text)


def latex(table: Standings) -> str:
    """The table for a paper, its notes below; needs the package booktabs."""
    lines: list[str] = []
    kind = None
    for row in table.rows:
        # a published row belongs to ours above it
        if (row.kind == "trivial") != (kind == "trivial") or kind is None:
            lines.append(r"\midrule")
        kind = row.kind
        lines.append(_latex_line([_named(row), *table.texts(row)]))
    notes = [f"{note}." for note in [*table.used_marks(), *table.notes]]
    return "\n".join([*_latex_table(table.title, ["rationales", *table.header()], lines, notes), ""])


def _latex_table(caption: str, head: Sequence[str], lines: Sequence[str], notes: Sequence[str]) -> list[str]:
    return [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        _latex_line(head),
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {escaped(note)}" for note in notes),
        r"\end{table}",
    ]


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


# ------------------------------------------------------------------------------------- the page of all tables


def paper_markdown(title: str, sections: Sequence[PaperSection], notes: Sequence[str]) -> str:
    """The page of all tables in GitHub's Markdown."""
    parts = [f"# {title}", "", *(f"- {note}" for note in notes), ""]
    for section in sections:
        parts += [f"## {section.title}", ""]
        for table in section.tables:
            parts += [f"### {markdown_escaped(table.title)}", "", *_stated(table)]
            parts += [*(f"- {text}" for text in table.first), ""]
            rows = [[_noted(row.name, row.note), *row.cells] for row in table.rows]
            cells = [[markdown_escaped(cell) for cell in line] for line in [[*table.head], *rows]]
            parts += [*_markdown_table(cells), ""]
            parts += [*(f"- {text}" for text in [*table.protocol, *table.notes]), ""]
    return "\n".join(parts)


def _stated(table: PaperTable) -> list[str]:
    said = []
    if table.is_sample:
        said.append("**Made-up sample corpus**: the published rows say nothing about these numbers.")
    if table.is_unfinished:
        said.append("**Unfinished**: some trainings have not ended.")
    return [*said, ""] if said else []


def _noted(name: str, note: str) -> str:
    return f"{name} ({note})" if note else name


def paper_latex(sections: Sequence[PaperSection], notes: Sequence[str]) -> str:
    """All tables for a paper; needs the package booktabs."""
    lines = [f"% {note}" for note in notes]
    for section in sections:
        for table in section.tables:
            lines += ["", rf"% {section.title}", *_paper_latex_table(section, table)]
    return "\n".join([*lines, ""])


def _paper_latex_table(section: PaperSection, table: PaperTable) -> list[str]:
    rows = [_latex_line([_noted(row.name, row.note), *row.cells]) for row in table.rows]
    said = [*(text for text in _stated(table) if text), *table.first, *table.protocol, *table.notes]
    plain = [text.replace("`", "").replace("**", "") for text in said]
    return _latex_table(f"{section.label}: {table.title}", table.head, [r"\midrule", *rows], plain)
