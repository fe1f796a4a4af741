"""A sheet without a server: a file for each person, to fill in with any editor and to read back."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from feature_store.cache import write_text
from feature_store.errors import keys_in_words, shown, slip_of_key
from feature_store.masks import MAX_BYTES
from feature_store.sources.fields import check_spans, is_mask, mask_positions, positions, whole
from feature_store.sources.lines import filled_lines, parse_record
from pipeline.base import locations
from pipeline.base.errors import PipelineError
from pipeline.judging.book import Book, Judgement
from pipeline.judging.guide import HIGHEST, LOWEST, SCALES, WORDS, is_in_tenths
from pipeline.judging.sheet import JUDGE, Sheet, Slot, spans_of
from pipeline.reporting import markup

GUIDE = "guide.txt"
_KEYS = ("sheet", "judge", "number")
_SHOWN = ("label", "text", "tokens")
"""Keys that repeat what the sheet shows."""


def export(sheet: Sheet, book: Book, folder: Path) -> list[Path]:
    """Write a file for each person, with the answers so far, and the guide; returns the files.

    Raises:
        PipelineError: if one is there already: it may hold answers that nobody has read back.
    """
    locations.make_folder(folder, "--export")
    paths = [folder / f"judge-{number}.jsonl" for number in range(1, len(sheet.plan) + 1)]
    if there := [path for path in [*paths, folder / GUIDE] if path.exists()]:
        raise PipelineError(
            f"`{there[0].name}` exists already and may contain answers",
            where=f"--export {folder}",
            hint="name another folder",
        )
    for judge, path in enumerate(paths):
        answers = book.answers(judge)
        lines = [
            _line(sheet, judge, number, slot, answers.get(number))
            for number, slot in enumerate(sheet.plan[judge])
        ]
        write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    write_text(folder / GUIDE, _guide(sheet))
    return paths


def _line(sheet: Sheet, judge: int, number: int, slot: Slot, answer: Judgement | None) -> dict[str, Any]:
    text = sheet.texts[slot.text]
    line: dict[str, Any] = {
        "sheet": sheet.digest,
        "judge": judge + 1,
        "number": number + 1,
        "label": text.shown,
    }
    if sheet.kind == JUDGE:
        line["text"] = _bracketed(text.tokens, sheet.spans(slot))
        return line | {scale: answer.content.get(scale) if answer else None for scale in SCALES}
    marks = answer.content["rationale"] if answer and answer.is_complete else None
    return line | {"tokens": text.tokens, "rationale": marks}


def _bracketed(tokens: Sequence[str], spans: Sequence[Sequence[int]]) -> str:
    """The text with 【 】 around what is marked: brackets that neither language's texts are full of."""
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    parts = []
    for i, (token, space) in enumerate(zip(tokens, markup.spaces(tokens), strict=True)):
        parts.append(f"{'【' * (i in starts)}{token}{'】' * (i + 1 in ends)}{space}")
    return "".join(parts)


def _guide(sheet: Sheet) -> str:
    say = WORDS[sheet.language]
    if sheet.kind != JUDGE:
        ask = say["annotate.ask"]
        form = (
            "[[start, end], ...] of tokens counted from 0, end not included; []: nothing is marked; "
            "null: not answered yet"
        )
        return f"{ask}\n\nrationale: {form}\n"
    lines = []
    for scale in SCALES:
        lines += [f"{scale} ({say[scale]}): {say[f'{scale}.question']}"]
        lines += [f"  {point}  {say[f'{scale}.{point}']}" for point in range(HIGHEST, LOWEST - 1, -1)]
        lines.append("")
    return "\n".join(lines)


def take_back(sheet: Sheet, book: Book, paths: Sequence[Path], *, replace: bool) -> int:
    """Read files that people filled in; all of them are kept, or none.

    Args:
        paths: the files; scores and rationales that are null change nothing.
        replace: whether they may take the place of other answers.

    Returns:
        How many answers were read.

    Raises:
        UserError: at the first line that does not fit; names file and line.
    """
    known = [book.answers(judge) for judge in range(len(sheet.plan))]
    found: dict[tuple[int, int], Judgement] = {}
    lines: dict[tuple[int, int], str] = {}
    for path in paths:
        for line_number, line in filled_lines(path, max_bytes=MAX_BYTES):
            where = f"{path}:{line_number}"
            record = parse_record(line, where, _KEYS)
            judge, number = _place(sheet, record, where)
            _check_shown(sheet, judge, number, record, where)
            answer = _answer(sheet, sheet.plan[judge][number], record, where)
            if answer is None:
                continue
            earlier, stored = found.get((judge, number)), known[judge].get(number)
            if earlier is not None and _contradicts(answer, earlier):
                raise PipelineError(
                    f"the line with `judge` {judge + 1} and `number` {number + 1} has a different answer "
                    f"here than in {lines[judge, number]}",
                    where=where,
                    hint="keep one of the two lines",
                )
            if stored is not None and stored.is_complete and _contradicts(answer, stored) and not replace:
                raise PipelineError(
                    f"the line with `judge` {judge + 1} and `number` {number + 1} has another answer than "
                    f"the stored one",
                    where=where,
                    hint="`--replace` replaces stored answers by the answers of the file",
                )
            found[judge, number] = _joined(answer, earlier or stored)
            lines[judge, number] = where
    book.save_all(found)
    return len(found)


def _contradicts(answer: Judgement, other: Judgement) -> bool:
    """Whether two answers say different things; what is null says nothing."""
    pairs = ((value, other.content[key]) for key, value in answer.content.items())
    return any(None not in (one, another) and one != another for one, another in pairs)


def _joined(answer: Judgement, before: Judgement | None) -> Judgement:
    """An answer with what an earlier one says where it is null itself."""
    if before is None:
        return answer
    content = {key: before.content[key] if value is None else value for key, value in answer.content.items()}
    return Judgement(content, answer.is_complete or None not in content.values())


def _check_shown(sheet: Sheet, judge: int, number: int, record: dict[str, object], where: str) -> None:
    """That the line still has what the judge was shown, and every key that `--export` wrote."""
    line = _line(sheet, judge, number, sheet.plan[judge][number], None)
    for key, expected in line.items():
        if key not in record:
            others = [name for name in record if name not in line]
            raise PipelineError(
                f"no key `{key}`; {keys_in_words(record)}", where=where, hint=slip_of_key(key, others)
            )
        if key in _SHOWN and record[key] != expected:
            raise PipelineError(
                f"`{key}` differs from the sheet: with `judge` {judge + 1} and `number` {number + 1}, the "
                f"sheet has {shown(expected)}, but the file has {shown(record[key])}",
                where=where,
                hint="change only the scores or the rationale in the files that `--export` writes",
            )


def _place(sheet: Sheet, record: dict[str, object], where: str) -> tuple[int, int]:
    if record["sheet"] != sheet.digest:
        raise PipelineError(
            f"the line belongs to sheet {shown(record['sheet'])}, but this sheet is {sheet.digest}",
            where=where,
        )
    judge = _within(record["judge"], "judge", len(sheet.plan), where)
    return judge, _within(record["number"], "number", len(sheet.plan[judge]), where)


def _within(value: object, key: str, highest: int, where: str) -> int:
    number = None if isinstance(value, bool) else whole(value)
    if number is None or not 1 <= number <= highest:
        raise PipelineError(f"expected `{key}` from 1 to {highest}, but got {shown(value)}", where=where)
    return number - 1


def _answer(sheet: Sheet, slot: Slot, record: dict[str, object], where: str) -> Judgement | None:
    if sheet.kind == JUDGE:
        scores = {scale: _score(record[scale], scale, where) for scale in SCALES}
        return Judgement(scores, None not in scores.values()) if any(scores.values()) else None
    value, size = record["rationale"], len(sheet.texts[slot.text].tokens)
    if value is None:
        return None
    if is_mask(value):
        marked = mask_positions(cast("list[int]", value), size, where)
    else:
        marked = positions(check_spans(value, size, "`rationale`", where))
    return Judgement({"rationale": spans_of(marked)}, True)


def _score(value: object, scale: str, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not LOWEST <= value <= HIGHEST:
        raise PipelineError(
            f"expected a number from {LOWEST} to {HIGHEST} as `{scale}`, but got {shown(value)}", where=where
        )
    if not is_in_tenths(value):
        raise PipelineError(f"expected `{scale}` in tenths, as 4.2, but got {shown(value)}", where=where)
    return float(value)
