"""A comparison's table as Markdown and as LaTeX; its page is made by `pages`."""

from collections.abc import Iterator, Sequence

from pipeline.base import text_tables
from pipeline.base.text_tables import markdown_escaped
from pipeline.reporting.paper_tables import PaperSection, PaperTable
from pipeline.reporting.standings import Standings, StandingsRow

_SAMPLE = "**Made-up sample corpus**: the published rows say nothing about these numbers."


def markdown(table: Standings, width: int | None = None, *, is_sample: bool = False) -> str:
    """The table in GitHub's Markdown, its notes below; columns are aligned to be read as text, too.

    Args:
        width: characters of a line: a wider table is set as several, each with all rows; None: one table.
        is_sample: whether the corpus was the made-up one, which is said below the title.
    """
    notes = [f"- {note}" for note in [*table.used_marks(), *table.notes]]
    title = f"### {markdown_escaped(table.title)}"
    head = [title, "", *([_SAMPLE, ""] if is_sample else [])]
    return "\n".join([*head, text_tables.markdown(_cells(table), width), "", *notes])


def latex(table: Standings, *, is_sample: bool = False) -> str:
    """The table for a paper, its notes below; needs the package booktabs.

    Args:
        is_sample: whether the corpus was the made-up one, which is the first note.
    """
    notes = [f"{note}." for note in [*table.used_marks(), *table.notes]]
    if is_sample:
        notes.insert(0, _plain(_SAMPLE))
    return text_tables.latex(table.title, _cells(table), notes, _rules(table.rows)) + "\n"


def _cells(table: Standings) -> list[list[str]]:
    rows = [[_noted_row(row), *table.texts(row)] for row in table.rows]
    return [["rationales", *table.header()], *rows]


def _noted_row(row: StandingsRow) -> str:
    return f"{row.name} {row.marks}" if row.marks else row.name


def _rules(rows: Sequence[StandingsRow]) -> Iterator[int]:
    """Rows with a line above: the first one, and those where trivial lines begin or end."""
    before = None
    for number, row in enumerate(rows, start=1):
        is_trivial = row.kind == "trivial"
        if is_trivial != before:
            yield number
        before = is_trivial


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
            parts += [text_tables.markdown([table.head, *rows]), ""]
            parts += [*(f"- {text}" for text in [*table.protocol, *table.notes]), ""]
    return "\n".join(parts)


def _stated(table: PaperTable) -> list[str]:
    said = []
    if table.is_sample:
        said.append(_SAMPLE)
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
            lines += ["", rf"% {section.title}", _paper_latex_table(section, table)]
    return "\n".join([*lines, ""])


def _paper_latex_table(section: PaperSection, table: PaperTable) -> str:
    rows = [[_noted(row.name, row.note), *row.cells] for row in table.rows]
    said = [*(text for text in _stated(table) if text), *table.first, *table.protocol, *table.notes]
    title = f"{section.label}: {table.title}"
    return text_tables.latex(title, [table.head, *rows], [_plain(text) for text in said])


def _plain(text: str) -> str:
    """A text without the signs of Markdown."""
    return text.replace("`", "").replace("**", "")
