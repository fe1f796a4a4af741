"""A sheet: who is shown which text with whose rationale, and in what order.

The plan is blind and balanced. A person who is given a text sees it once with each method's rationale, so
that methods are compared on the same texts by the same people; where there are three texts or more, no two
showings of a text follow each other. Every text has equally many judges, every judge equally many texts (give
or take one), and any two judges share about equally many. A share of what one has judged comes back later,
unannounced, to see whether one agrees with oneself.
"""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from feature_store.cache import write_text
from feature_store.errors import reason
from feature_store.wording import counted
from pipeline.base.errors import PipelineError

JUDGE, ANNOTATE = "judge", "annotate"
SHEET, BOOK = "sheet.json", "answers.db"
"""Files of a sheet's folder."""
FORMAT = 1
MAX_REPEATS = 0.5
"""Only showings of the first half come back, each once, among those of the second half."""

Spans = list[list[int]]
"""[start, end) of tokens, ascending and apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A text as people see it."""

    example_id: str
    tokens: list[str]
    shown: str = ""
    """The label in words; empty where there is none to show."""
    record: Mapping[str, str | float]
    """`label` or `score`, as `--dataset jsonl` reads it; may be empty."""
    original: str = ""
    """The text as its file has it; empty where the file gives tokens."""
    places: Spans = field(default_factory=list)
    """[start, end) of the original for each token; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One showing."""

    text: int
    method: int = 0
    """Whose rationale is marked; 0, too, where people mark their own."""
    is_repeat: bool = False
    """Whether this judge has been shown just this before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """What is judged or annotated, and by whom; it never changes once it is made."""

    kind: str
    """`judge` or `annotate`."""
    title: str
    language: str
    """Of the pages, where a person chooses no other: `en` or `zh`."""
    texts: list[Text]
    methods: list[str]
    """Their names, which no judge sees; empty on a sheet for annotation."""
    rationales: list[list[Spans]]
    """By method, then by text."""
    plan: list[list[Slot]]
    """By judge, then in the order of showing."""
    provenance: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that tell sheets apart."""
        text = json.dumps(self.document(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def document(self) -> dict[str, Any]:
        """As its file has it; texts without an original have no keys for one, as in older files."""
        document = asdict(self)
        for text in document["texts"]:
            if not text["original"]:
                del text["original"], text["places"]
        return document

    @property
    def num_slots(self) -> int:
        """Showings to all judges together."""
        return sum(map(len, self.plan))

    def spans(self, slot: Slot) -> Spans:
        """The rationale that is marked in a showing; nothing on a sheet for annotation."""
        return self.rationales[slot.method][slot.text] if self.methods else []


def spans_of(positions: Sequence[int]) -> Spans:
    """[start, end) spans of ascending positions."""
    spans: Spans = []
    for position in positions:
        if spans and spans[-1][1] == position:
            spans[-1][1] = position + 1
        else:
            spans.append([position, position + 1])
    return spans


def plan(
    num_texts: int, num_methods: int, num_judges: int, per_text: int, repeat_rate: float, seed: int
) -> list[list[Slot]]:
    """Who sees what, and in what order.

    Args:
        num_texts: at least 1.
        num_methods: at least 1.
        num_judges: at least 1.
        per_text: judges of each text, at most `num_judges`.
        repeat_rate: showings that come back / showings, in [0, MAX_REPEATS].
        seed: an equal seed gives an equal plan.

    Raises:
        PipelineError: if there are fewer judges than each text needs, or more than get a text.
    """
    if not 1 <= per_text <= num_judges:
        raise PipelineError(
            f"expected from 1 to {counted(num_judges, 'judge')} for each text, but got {per_text}",
            where="--per-text",
            hint="raise `--judges`, or lower `--per-text`",
        )
    if num_judges > num_texts * per_text:
        raise PipelineError(
            f"expected at most {counted(num_texts * per_text, 'judge')}, but got {num_judges}: with "
            f"{counted(num_texts, 'text')} and {counted(per_text, 'judge')} for each text, some would have "
            "no text",
            where="--judges",
            hint="lower `--judges`, or raise `--per-text` or the number of texts",
        )
    chance = random.Random(seed)
    texts = _shared_out(num_texts, num_judges, per_text, chance)
    return [
        _with_repeats(_ordered(own, num_methods, judge, chance), repeat_rate, chance)
        for judge, own in enumerate(texts)
    ]


def _shared_out(num_texts: int, num_judges: int, per_text: int, chance: random.Random) -> list[list[int]]:
    """The texts of each judge: counts differ by one at most, and so, nearly, do those of shared texts."""
    own: list[list[int]] = [[] for _ in range(num_judges)]
    shared = [[0] * num_judges for _ in range(num_judges)]
    for text in range(num_texts):
        chosen: list[int] = []
        while len(chosen) < per_text:
            free = [judge for judge in range(num_judges) if judge not in chosen]
            chance.shuffle(free)
            best = min(free, key=lambda j: (len(own[j]), sum(shared[j][other] for other in chosen)))
            for other in chosen:
                shared[best][other] += 1
                shared[other][best] += 1
            chosen.append(best)
        for judge in chosen:
            own[judge].append(text)
    return own


def _ordered(texts: Sequence[int], num_methods: int, judge: int, chance: random.Random) -> list[Slot]:
    """As many rounds as methods: in each, every text once; over all of them, with every method once."""
    slots: list[Slot] = []
    for turn in range(num_methods):
        order = chance.sample(texts, len(texts))
        if slots and len(order) > 1 and order[0] == slots[-1].text:
            order[0], order[-1] = order[-1], order[0]
        slots += [Slot(text, (text + turn + judge) % num_methods) for text in order]
    return slots


def _with_repeats(slots: list[Slot], rate: float, chance: random.Random) -> list[Slot]:
    """Showings of the first half once more, among those of the second half; methods take turns."""
    early = chance.sample(slots[: len(slots) // 2], len(slots) // 2)
    seen: dict[int, int] = {}
    turns = []
    for slot in early:
        turns.append((seen.setdefault(slot.method, 0), slot))
        seen[slot.method] += 1
    again = [slot for _, slot in sorted(turns, key=lambda one: one[0])][: round(rate * len(slots))]
    first, found = len(slots) // 2, list(slots)
    for slot in again:
        places = [
            i
            for i in range(first + 1, len(found) + 1)
            if slot.text not in {near.text for near in found[max(first, i - 1) : i + 1]}
        ]
        found.insert(chance.choice(places or [len(found)]), Slot(slot.text, slot.method, True))
    return found


def save(sheet: Sheet, folder: Path) -> None:
    """Write the sheet's file whole or not at all."""
    document = {"format": FORMAT, "digest": sheet.digest, **sheet.document()}
    write_text(folder / SHEET, json.dumps(document, ensure_ascii=False, indent=1))


def load(folder: Path, where: str) -> Sheet:
    """The sheet of a folder.

    Args:
        folder: that `save` wrote into.
        where: flag that named it.

    Raises:
        PipelineError: if there is none, or it was altered.
    """
    path = folder / SHEET
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        given = {key: value for key, value in document.items() if key not in ("format", "digest")}
        texts = [Text(**text) for text in given.pop("texts")]
        slots = [[Slot(**slot) for slot in own] for own in given.pop("plan")]
        sheet = Sheet(texts=texts, plan=slots, **given)
    except FileNotFoundError as error:
        raise PipelineError(
            f"no sheet in `{folder}`: there is no `{SHEET}`",
            where=where,
            hint="`python -m pipeline.judge --sheet DIR --models NAME,...` (or `--annotate`) makes one",
        ) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise PipelineError(f"not a sheet of this version ({reason(error)})", where=str(path)) from error
    if sheet.digest != document.get("digest"):
        raise PipelineError(
            "the sheet was altered after it was made: answers would no longer belong to what was shown",
            where=str(path),
            hint="restore the file, or create another sheet in another folder",
        )
    return sheet
