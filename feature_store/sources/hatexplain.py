"""HateXplain: posts labelled as hate speech, offensive or normal, with human rationales [Mathew et al. 2021].

`DATA_DIR/hatexplain/` holds `dataset.json`, one object of posts by their id: `annotators` (each with a
`label` and a list of `target` groups), `rationales` (a 0/1 mask over the tokens from each annotator who found
the post toxic, in no order that joins them to the annotators), `post_tokens`; and `post_id_divisions.json`
with the ids of `train`, `val` and `test`. Either may have .gz behind its name.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feature_store.errors import BadInputError, quoted, shown
from feature_store.sources.base import (
    NO_OPTIONS,
    Example,
    Query,
    RemoteFile,
    Report,
    SourceOption,
    TargetSpec,
    TaskSpec,
)
from feature_store.sources.fields import SeenExamples, check_encodable, check_tokens, whole
from feature_store.sources.lines import require_keys
from feature_store.sources.locate import find_inputs, plain_or_gz
from feature_store.sources.members import read_members
from feature_store.sources.reads_rows import ReadsRows
from feature_store.wording import counted

CLASS_NAMES = ("hatespeech", "normal", "offensive")
"""In the order of the official encoder."""

NORMAL = "normal"
GROUP_VOTES = 2
"""Annotators who must name a group for the post to be about it: most of the three."""

_NO_GROUP = "None"
LABEL, GROUP = "label", "group"
"""Names of the targets where there are both."""
_NO_CLASS, _OTHER_CLASS = "no group", "another group"
_GROUP_SHARE = 0.01
"""Least share of the training posts that a group of its own class has."""
_SPLITS = ("train", "val", "test")
_UNION, _MAJORITY = "union", "majority"
_NUM_NAMED = 3
"""Posts of each kind that a note names."""

_URL = "https://raw.githubusercontent.com/hate-alert/HateXplain/master/Data/"


@dataclass(frozen=True, slots=True)
class _Post:
    """A post whose form is checked."""

    post_id: str
    labels: list[str]
    targets: list[set[str]]
    tokens: list[str]
    masks: list[list[int]]

    @property
    def label(self) -> str | None:
        """The label of more than half of the annotators; None where there is none."""
        label, votes = Counter(self.labels).most_common(1)[0]
        return label if 2 * votes > len(self.labels) else None

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that enough annotators name."""
        return tuple(sorted(group for group, count in self._votes.items() if count >= GROUP_VOTES))

    @property
    def group(self) -> str:
        """The one of them that most annotators name, of equals the first in the alphabet."""
        return min(self.groups, key=lambda group: (-self._votes[group], group), default=_NO_CLASS)

    @property
    def _votes(self) -> Counter[str]:
        return Counter(group for named in self.targets for group in named - {_NO_GROUP})


class HateXplain(ReadsRows):
    """The source `hatexplain`: classification of posts into three classes.

    The label is that of most annotators; a post without one is dropped, and counted. Splits are the official
    ones, in which a few texts stand twice: they stay, and are counted. Models are chosen on `val`, which is
    annotated.

    Only toxic posts have a human rationale. It is the union of the annotators' masks, or with the option
    `gold=majority` the tokens that more than half of them marked. An empty mask counts as one that marks
    nothing; a mask of another length than the post is left out; where that leaves no marked token, the post
    has no rationale. Each case is counted and named in the notes.

    With `--aspect label,group` the group that a post is about is a side target: the one that most annotators
    name, if two or more do. Groups of fewer than a hundredth of the training posts are one class.
    """

    name = "hatexplain"
    title = "HateXplain posts: hate speech, offensive or normal (Mathew et al. 2021)"
    main_targets = (LABEL,)
    side_targets = (GROUP,)
    shares_texts = True
    options = (
        SourceOption(
            name="gold",
            default=_UNION,
            choices=(_UNION, _MAJORITY),
            help="union: tokens that at least one annotator marked; majority: tokens that more than half of "
            "the annotators marked",
        ),
    )
    tokenizer = "posts"
    version = 1
    sample_version = 1
    remote_files = tuple(
        RemoteFile(name=name, url=f"{_URL}{name}") for name in ("dataset.json", "post_id_divisions.json")
    )

    def inputs(
        self, data_dir: Path, aspect: str | None, options: Mapping[str, str] = NO_OPTIONS
    ) -> dict[str, Path]:
        """Files by role: `posts` and `divisions`."""
        names = {"posts": plain_or_gz("dataset.json"), "divisions": plain_or_gz("post_id_divisions.json")}
        return find_inputs(data_dir, self.name, names)

    def task(self, query: Query, report: Report) -> TaskSpec:
        """The three classes, whatever the files hold; the groups are those of the training posts."""
        sides = tuple(
            TargetSpec(name=name, kind="classification", class_names=_group_classes(query))
            for name in query.sides
        )
        return TaskSpec(kind="classification", class_names=CLASS_NAMES, sides=sides)

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """Posts in the order of the file; see `Source.frames`."""
        divisions = query.inputs["divisions"]
        split_of, lines = _read_divisions(divisions, query.max_bytes)
        waiting, seen = set(split_of), SeenExamples()
        cases = _Cases(list)
        groups = [{name: n for n, name in enumerate(side.class_names or ())} for side in task.sides]
        for post, where in _read_posts(query.inputs["posts"], query.max_bytes):
            waiting.discard(post.post_id)
            if post.label is None:
                report.counts["dropped_undecided"] += 1
                continue
            if post.post_id not in split_of:
                raise BadInputError(
                    f"post `{post.post_id}` is in none of the divisions {quoted(_SPLITS)} of "
                    f"{divisions.name}",
                    where=where,
                    hint="only posts whose annotators all disagree may be left out; check that both files "
                    "are of the same release",
                )
            split = split_of[post.post_id]
            seen.add(post.post_id, split, post.tokens, where)
            yield Example(
                example_id=post.post_id,
                split=split,
                tokens=post.tokens,
                target=CLASS_NAMES.index(post.label),
                rationale=_rationale(post, split, query.options["gold"], cases),
                groups=post.groups,
                side_targets=tuple(own.get(post.group, own[_OTHER_CLASS]) for own in groups),
            )
        if waiting:
            first = next(post_id for post_id in split_of if post_id in waiting)
            raise BadInputError(
                f"{len(waiting)} post ids are not in {query.inputs['posts'].name}; the first is `{first}` "
                f"in `{split_of[first]}`",
                where=f"{divisions}:{lines[split_of[first]]}",
                hint="check that the file of posts is complete, and of the same release",
            )
        _tell(report, cases)
        seen.tell(report)

    def annotator_shares(self, query: Query) -> dict[str, list[float]]:
        """The mean of the annotators' masks of each toxic training post; see `TellsAnnotatorsApart`."""
        split_of, _ = _read_divisions(query.inputs["divisions"], query.max_bytes)
        found = {}
        for post, _ in _read_posts(query.inputs["posts"], query.max_bytes):
            masks = _fitting(post)
            if split_of.get(post.post_id) == "train" and post.label not in (None, NORMAL) and masks:
                votes = _votes(masks, len(post.tokens))
                found[post.post_id] = [count / len(masks) for count in votes]
        return found

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write the made-up corpus of `feature_store.sample_posts`."""
        from feature_store import sample_posts

        sample_posts.write_hatexplain(data_dir / self.name, seed=seed)


# ------------------------------------------------------------------------------------------- reading


def _group_classes(query: Query) -> tuple[str, ...]:
    """The groups that are classes, the frequent ones by name, then the two that stand for all others."""
    split_of, _ = _read_divisions(query.inputs["divisions"], query.max_bytes)
    posts = (post for post, _ in _read_posts(query.inputs["posts"], query.max_bytes) if post.label)
    counts = Counter(post.group for post in posts if split_of.get(post.post_id) == "train")
    least = _GROUP_SHARE * counts.total()
    frequent = sorted(group for group, count in counts.items() if count >= least and group != _NO_CLASS)
    return (*frequent, _OTHER_CLASS, _NO_CLASS)


def _read_divisions(path: Path, max_bytes: int) -> tuple[dict[str, str], dict[str, int]]:
    """Post id -> split, and split -> line on which its ids begin."""
    split_of: dict[str, str] = {}
    names: dict[str, int] = {}
    for line, name, ids in read_members(path, max_bytes=max_bytes):
        where = f"{path}:{line}"
        if name not in _SPLITS or name in names:
            raise BadInputError(f"expected {quoted(_SPLITS)} once each, but got `{name}`", where=where)
        names[name] = line
        if not isinstance(ids, list) or not all(isinstance(post_id, str) and post_id for post_id in ids):
            raise BadInputError(f"expected a list of post ids as `{name}`, but got {shown(ids)}", where=where)
        for post_id in ids:
            if post_id in split_of:
                raise BadInputError(
                    f"post `{post_id}` is in `{name}`, but in `{split_of[post_id]}` already", where=where
                )
            split_of[post_id] = name
    if missing := [name for name in _SPLITS if name not in names]:
        raise BadInputError(f"expected also a division {quoted(missing)}", where=str(path))
    return split_of, names


def _read_posts(path: Path, max_bytes: int) -> Iterator[tuple[_Post, str]]:
    """Checked posts, each with its file, line and id."""
    seen: set[str] = set()
    for line, post_id, record in read_members(path, max_bytes=max_bytes):
        check_encodable(post_id, "the id of a post", f"{path}:{line}")
        where = f"{path}:{line}, post `{post_id}`"
        if not post_id or post_id in seen:
            what = "is in the file already" if post_id else "has an empty id"
            raise BadInputError(f"the post {what}", where=where)
        seen.add(post_id)
        yield _check_post(post_id, record, where), where


def _check_post(post_id: str, record: object, where: str) -> _Post:
    if not isinstance(record, dict):
        raise BadInputError(f"expected a JSON object, but got {shown(record)}", where=where)
    require_keys(record, ("annotators", "post_tokens"), where)
    annotators = record["annotators"]
    if (
        not isinstance(annotators, list)
        or not annotators
        or not all(isinstance(annotator, dict) for annotator in annotators)
    ):
        raise BadInputError(f"expected a list of annotators, but got {shown(annotators)}", where=where)
    return _Post(
        post_id,
        [_check_label(annotator.get("label"), where) for annotator in annotators],
        [_check_targets(annotator.get("target"), where) for annotator in annotators],
        check_tokens(record["post_tokens"], "post_tokens", where),
        _check_masks(record.get("rationales"), where),
    )


def _check_label(label: object, where: str) -> str:
    if label not in CLASS_NAMES:
        raise BadInputError(f"expected {quoted(CLASS_NAMES)} as `label`, but got {shown(label)}", where=where)
    return str(label)


def _check_targets(targets: object, where: str) -> set[str]:
    """Groups that one annotator names; none where the file holds null."""
    if targets is None:
        return set()
    if not isinstance(targets, list) or not all(isinstance(group, str) and group for group in targets):
        raise BadInputError(
            f"expected a list of groups or null as `target`, but got {shown(targets)}", where=where
        )
    return {check_encodable(group, "a group of `target`", where) for group in targets}


def _check_masks(masks: object, where: str) -> list[list[int]]:
    if masks is None:
        return []
    if not isinstance(masks, list) or not all(isinstance(mask, list) for mask in masks):
        raise BadInputError(f"expected a list of masks as `rationales`, but got {shown(masks)}", where=where)
    for mask in masks:
        for mark in mask:
            if isinstance(mark, bool) or whole(mark) not in (0, 1):
                raise BadInputError(
                    f"expected a mask of 0 and 1 in `rationales`, but got {shown(mark)}", where=where
                )
    return [[int(mark) for mark in mask] for mask in masks]


# ----------------------------------------------------------------------------------------- rationales


_Cases = defaultdict[str, list[tuple[str, str]]]
"""What was met among the rationales -> split and id of each post."""


def _rationale(post: _Post, split: str, gold: str, cases: _Cases) -> list[int] | None:
    """Positions of the human rationale; None for a normal post, and where no token is marked."""
    if post.label == NORMAL:
        if any(any(mask) for mask in post.masks):
            cases["normal_with_mask"].append((split, post.post_id))
        return None
    if not post.masks:
        cases["toxic_without_mask"].append((split, post.post_id))
        return None
    for mask in post.masks:
        if not any(mask):
            cases["empty_mask"].append((split, post.post_id))
        elif len(mask) != len(post.tokens):
            cases["mask_of_other_length"].append((split, post.post_id))
    masks = _fitting(post)
    least = 1 if gold == _UNION else len(masks) // 2 + 1
    marked = [i for i, count in enumerate(_votes(masks, len(post.tokens))) if count >= least]
    if not marked:
        cases["toxic_without_marked_token"].append((split, post.post_id))
    return marked or None


def _fitting(post: _Post) -> list[list[int]]:
    """The masks that count: those of the post's length, and those that mark nothing."""
    return [mask for mask in post.masks if not any(mask) or len(mask) == len(post.tokens)]


def _votes(masks: Sequence[Sequence[int]], num_tokens: int) -> list[int]:
    """How many annotators marked each token; a mask that marks nothing may have another length."""
    return [sum(mask[i] for mask in masks if i < len(mask)) for i in range(num_tokens)]


_NOTES = {
    "toxic_without_mask": (
        "toxic post has",
        "toxic posts have",
        "no rationale: left out of every score that needs one",
    ),
    "empty_mask": ("mask marks", "masks mark", "no token: each counts as an annotator who marked nothing"),
    "mask_of_other_length": ("mask has", "masks have", "a different length than the post: left out"),
    "toxic_without_marked_token": (
        "toxic post has",
        "toxic posts have",
        "masks, but no token that counts as marked: left out of every score that needs a rationale",
    ),
    "normal_with_mask": (
        "normal post has",
        "normal posts have",
        "a rationale: it is left out, as only toxic posts are explained",
    ),
}


def _tell(report: Report, cases: _Cases) -> None:
    """Counts and notes of every label and rationale that is not plain."""
    if dropped := report.counts["dropped_undecided"]:
        report.notes.append(f"{counted(dropped, 'post')} without a majority label: left out")
    for case, (one, several, note) in _NOTES.items():
        if case not in cases:
            continue
        by_split = Counter(split for split, _ in cases[case])
        total = by_split.total()
        report.counts.update({f"{split}_{case}": count for split, count in by_split.items()})
        where = ", ".join(f"{split} {by_split[split]}" for split in _SPLITS if by_split[split])
        named = ", ".join(post_id for _, post_id in cases[case][:_NUM_NAMED])
        more = ", ..." if total > _NUM_NAMED else ""
        report.notes.append(f"{counted(total, one, several)} {note} ({where}; {named}{more})")
