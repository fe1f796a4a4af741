"""CAIL2018: facts of criminal cases with charge, article of law and term of imprisonment [Xiao et al. 2018].

`DATA_DIR/` holds the official archive, unpacked: `cail2018/` (or `CAIL2018_ALL_DATA/`, or nothing), in it
`final_all_data/exercise_contest/data_{train,valid,test}.json` (CAIL-small) and
`final_all_data/first_stage/{train,test}.json` (CAIL-big), or the same with .gz, and, where there are any,
`meta/accu.txt` and `meta/law.txt`, the official lists of charges and articles. One JSON object a line:
`fact`, and `meta` with `accusation`, `relevant_articles`, `criminals` and `term_of_imprisonment`, in UTF-8 or
GB18030.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from feature_store.cail_recipes import MIN_CASES, RECIPES, Case, CaseRecipe
from feature_store.errors import BadInputError, MissingDataError, did_you_mean, shown
from feature_store.fingerprint import file_digest, unit_interval
from feature_store.own_words import OwnWords
from feature_store.segmenter import DICTIONARY, DictionaryWord
from feature_store.sources.base import (
    NO_OPTIONS,
    Example,
    FeatureDefaults,
    Query,
    RemoteFile,
    Report,
    SourceOption,
    TargetSpec,
    TaskSpec,
)
from feature_store.sources.fields import check_text, whole
from feature_store.sources.lines import UTF8, filled_lines, parse_record, require_keys
from feature_store.sources.locate import files_there, is_there, plain_or_gz
from feature_store.sources.own_words import read_own_words, word_options
from feature_store.sources.reads_rows import ReadsRows
from feature_store.tokens import visible
from feature_store.wording import counted

VAL_RATE = 0.1
"""Share of the training cases of CAIL-big cut off as `val`: the first stage has none of its own."""

ENCODINGS = (UTF8, "GB18030")
CHARGES, ARTICLES, TERMS = "charges", "articles", "terms"
_MAX_DIGITS = 9
"""No number of an article is longer; Python refuses to read one of thousands of digits."""
_FOLDERS = ("cail2018", "CAIL2018_ALL_DATA", "")
_ARCHIVE = "CAIL2018_ALL_DATA.zip"
_URL = f"https://cail.oss-cn-qingdao.aliyuncs.com/{_ARCHIVE}"  # [Sha2023], section 4.3
_LISTS = {"official_charges": "meta/accu.txt", "official_articles": "meta/law.txt"}
_META = ("accusation", "relevant_articles", "criminals", "term_of_imprisonment")
_TERM = ("death_penalty", "life_imprisonment", "imprisonment")


@dataclass(frozen=True, kw_only=True, slots=True)
class _CailTask(TaskSpec):
    """What a first reading of the files finds out."""

    frequent_charges: frozenset[str]
    """Those of enough cases; cases with another are left out."""

    frequent_articles: frozenset[int]
    train_charges: frozenset[str]
    """Those that the cases kept in `train` have."""

    train_articles: frozenset[int]
    num_cases: Mapping[str, int]
    """Lines of each file, by role."""


class Cail(ReadsRows):
    """The sources `cail-small` and `cail-big`: the one charge, article or term of a case, or several of them.

    Splits: those of the official files; CAIL-big's `val` is cut 90/10 from its train file by a hash of each
    fact. Nobody annotated rationales. The option `recipe` says which cases are left out and what the classes
    of terms are (`feature_store.cail_recipes`); all three aspects keep the same cases.
    """

    aspects = (CHARGES, ARTICLES, TERMS)
    side_targets = aspects
    aliases: Mapping[str, str] = {"charge": CHARGES, "laws": ARTICLES, "article": ARTICLES, "term": TERMS}
    # [Sha2023]: at most 1,000 tokens, vectors of 100. Differs: it starts from random vectors; after two
    # epochs accuracy .83 against .38
    defaults = FeatureDefaults(max_length=1000, sample_max_length=256, embedding_size=100)
    shares_texts = True
    options = (
        SourceOption(
            name="recipe",
            default="topjudge",
            choices=tuple(RECIPES),
            help="rules that decide which cases are kept and how prison terms are grouped into classes; "
            "publications use different rules",
        ),
        *word_options(
            "words of your own for jieba, `WORD [FREQUENCY] [TAG]` a line, with blanks or tabs (UTF-8)",
            "words to leave out, one a line (UTF-8)",
        ),
    )
    tokenizer = "jieba"
    version = 2
    sample_version = 1

    def __init__(self, name: str, title: str, folder: str, files: Mapping[str, str]) -> None:
        """Args: files: names of the official files by split, under `final_all_data/folder/`."""
        self.name, self.title = name, title
        self._files = {split: f"final_all_data/{folder}/{file}" for split, file in files.items()}
        members = tuple(self._files.values())
        archive = RemoteFile(name=_ARCHIVE, url=_URL, folder=_FOLDERS[0], members=members)
        self.remote_files = (archive,)

    def inputs(
        self, data_dir: Path, aspect: str | None, options: Mapping[str, str] = NO_OPTIONS
    ) -> dict[str, Path]:
        """Files by role: the splits, and `official_charges`, `official_articles` where they are there."""
        root = self._root(data_dir)
        names = {role: plain_or_gz(name) for role, name in (self._files | _LISTS).items()}
        present = files_there(root, names)
        if missing := [str(root / name) for role, name in self._files.items() if not present[role]]:
            raise MissingDataError(
                f"dataset `{self.name}`: no file " + "; no file ".join(missing),
                hint=f"unpack the official archive ({_URL}) into {data_dir / _FOLDERS[0]}, or let `python -m "
                f"feature_store fetch --dataset {self.name} --data-dir {data_dir}` do it, "
                "or try the made-up corpus with `--sample`",
            )
        return {role: files[0] for role, files in present.items() if files}

    def _root(self, data_dir: Path) -> Path:
        """The folder that holds the first of the official files; the usual one where none does."""
        roots = [data_dir / folder for folder in (*_FOLDERS, self.name)]
        first = self._files["train"]
        holding = [root for root in roots if any(is_there(root / file) for file in plain_or_gz(first))]
        return (holding or roots)[0]

    def task(self, query: Query, report: Report) -> TaskSpec:
        """Read all files a first time: check every line, and count the labels of the cases that are kept."""
        recipe = RECIPES[query.options["recipe"]]
        official = _official_lists(query, report)
        pairs: dict[str, Counter[tuple[str, int]]] = {split: Counter() for split in self.splits}
        num_cases: Counter[str] = Counter()
        for role in self._files:
            for _, case in _cases(query.inputs[role], query.max_bytes, official):
                num_cases[role] += 1
                if recipe.refuses(case) is None:
                    pairs[self._split(role, case)][case.charges[0], case.articles[0]] += 1
        of_train_file = ("train",) if "val" in self._files else ("train", "val")
        files = self.splits if recipe.counts_everywhere else of_train_file
        charges, articles = _frequent(sum((pairs[split] for split in files), Counter[tuple[str, int]]()))
        kept = [pair for pair in pairs["train"] if pair[0] in charges and pair[1] in articles]
        task = _CailTask(
            kind="classification",
            frequent_charges=charges,
            frequent_articles=articles,
            train_charges=frozenset(charge for charge, _ in kept),
            train_articles=frozenset(article for _, article in kept),
            num_cases=num_cases,
        )
        names = _class_names(query.aspect, task, recipe)
        if len(task.train_charges) < 2 or len(names) < 2:
            raise BadInputError(
                f"expected at least 2 classes, but recipe `{recipe.name}` keeps only charges and articles "
                f"of at least {MIN_CASES} cases: {counted(len(task.train_charges), 'charge')} and "
                f"{counted(len(task.train_articles), 'article')}",
                where=str(query.inputs["train"]),
            )
        sides = tuple(
            TargetSpec(name=side, kind="classification", class_names=_class_names(side, task, recipe))
            for side in query.sides
        )
        return dataclasses.replace(task, class_names=names, sides=sides)

    def _split(self, role: str, case: Case) -> str:
        if role == "train" and "val" not in self._files and unit_interval(case.fact) < VAL_RATE:
            return "val"
        return role

    def examples(self, query: Query, task: TaskSpec, report: Report) -> Iterator[Example]:
        """Cases that the recipe keeps, cut into words; see `Source.frames`."""
        if not isinstance(task, _CailTask):
            raise TypeError(f"expected what `task` returned, but got {task!r}")
        recipe = RECIPES[query.options["recipe"]]
        targets, *sides = (_Targets(name, task, recipe) for name in (query.aspect, *query.sides))
        own = read_own_words(query)
        report.dropped.update({reason: Counter() for reason in (*recipe.reasons, *_LABEL_REASONS, _NO_WORD)})
        in_train: set[bytes] = set()
        for role in self._files:
            lengths = self._word_lengths(query, role, task, own.words)
            cases = _cases(query.inputs[role], query.max_bytes, {})
            for (line, case), case_lengths in zip(cases, lengths, strict=True):
                split = self._split(role, case)
                report.counts[f"{split}_cases"] += 1
                tokens = _tokens(case.fact, case_lengths, own)
                reason = recipe.refuses(case) or _label_reason(case, task) or ("" if tokens else _NO_WORD)
                if reason:
                    report.drop(reason, split)
                    continue
                _count_shared(case.fact, split, in_train, report)
                yield Example(
                    example_id=f"{Path(self._files[role]).stem}:{line}",
                    split=split,
                    tokens=tokens,
                    target=targets.of(case),
                    rationale=None,
                    side_targets=tuple(side.of(case) for side in sides),
                )
        report.notes += [*self._notes(recipe, task, report), *own.notes()]

    def _word_lengths(
        self, query: Query, role: str, task: _CailTask, words: tuple[DictionaryWord, ...]
    ) -> Iterator[list[int]]:
        from feature_store.segmentation import TextFile, word_lengths  # pyarrow: not before it is needed

        path = query.inputs[role]
        return word_lengths(
            TextFile(
                name=path.name,
                digest=query.digests.get(role) or file_digest(path),
                texts=lambda: (case.fact for _, case in _cases(path, query.max_bytes, {})),
                num_texts=task.num_cases[role],
            ),
            query.cache_dir,
            words=words,
            dictionary_digest=file_digest(query.inputs[DICTIONARY]) if words else None,
        )

    def _notes(self, recipe: CaseRecipe, task: _CailTask, report: Report) -> list[str]:
        kept = []
        for split in self.splits:
            cases = report.counts[f"{split}_cases"]
            kept.append(f"{cases - report.counts[f'{split}_dropped']} of {cases} {split} cases")
        charges, articles = len(task.train_charges), len(task.train_articles)
        notes = [
            f"recipe `{recipe.name}` keeps {', '.join(kept)}, with {counted(charges, 'charge')}, "
            f"{counted(articles, 'article')}"
        ]
        totals = {reason: counts.total() for reason, counts in report.dropped.items() if counts.total()}
        if totals:
            notes.append("dropped: " + "; ".join(f"{number} {reason}" for reason, number in totals.items()))
        if "val" not in self._files:
            notes.append(
                f"no official validation file: val is cut from {Path(self._files['train']).name}, 90/10"
            )
        shared = {split: report.counts[f"{split}_also_in_train"] for split in ("val", "test")}
        if any(shared.values()):
            found = " and ".join(f"{number} of {split}" for split, number in shared.items())
            notes.append(f"texts that also occur in train (kept, as in the official files): {found}")
        return notes

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """A made-up corpus in the official layout; see `feature_store.sample_cail`."""
        from feature_store.sample_cail import write_cail

        write_cail(
            data_dir / self.name, {split: Path(file) for split, file in self._files.items()}, seed=seed
        )


CAIL_SMALL = Cail(
    name="cail-small",
    title="Chinese criminal cases, exercise stage of CAIL2018 (Xiao et al. 2018)",
    folder="exercise_contest",
    files={"train": "data_train.json", "val": "data_valid.json", "test": "data_test.json"},
)
CAIL_BIG = Cail(
    name="cail-big",
    title="Chinese criminal cases, first stage of CAIL2018 (Xiao et al. 2018)",
    folder="first_stage",
    files={"train": "train.json", "test": "test.json"},
)


# -------------------------------------------------------------------------------------------------- classes


def _frequent(pairs: Counter[tuple[str, int]]) -> tuple[frozenset[str], frozenset[int]]:
    """Charges and articles of enough cases."""
    charges: Counter[str] = Counter()
    articles: Counter[int] = Counter()
    for (charge, article), number in pairs.items():
        charges[charge] += number
        articles[article] += number
    return (
        frozenset(charge for charge, number in charges.items() if number >= MIN_CASES),
        frozenset(article for article, number in articles.items() if number >= MIN_CASES),
    )


def _class_names(aspect: str | None, task: _CailTask, recipe: CaseRecipe) -> tuple[str, ...]:
    if aspect == TERMS:
        return recipe.term_names
    if aspect == ARTICLES:
        return tuple(map(str, sorted(task.train_articles)))
    return tuple(sorted(task.train_charges))


class _Targets:
    """Numbers of the classes of one aspect."""

    def __init__(self, aspect: str | None, task: _CailTask, recipe: CaseRecipe) -> None:
        self._aspect, self._recipe = aspect, recipe
        names = _class_names(aspect, task, recipe)
        self._number = {name: number for number, name in enumerate(names)}

    def of(self, case: Case) -> int:
        if self._aspect == TERMS:
            return self._recipe.term_class(case)
        return self._number[case.charges[0] if self._aspect == CHARGES else str(case.articles[0])]


_RARE_CHARGE = f"with a charge of fewer than {MIN_CASES} cases"
_RARE_ARTICLE = f"with an article of fewer than {MIN_CASES} cases"
_NOT_IN_TRAIN = "with a charge or an article that is in no case of train"
_LABEL_REASONS = (_RARE_CHARGE, _RARE_ARTICLE, _NOT_IN_TRAIN)
_NO_WORD = "without a word after the stop words are removed"


def _label_reason(case: Case, task: _CailTask) -> str | None:
    """Why a case with one charge and one article is left out for them; None where it is not."""
    charge, article = case.charges[0], case.articles[0]
    if charge not in task.frequent_charges:
        return _RARE_CHARGE
    if article not in task.frequent_articles:
        return _RARE_ARTICLE
    return None if charge in task.train_charges and article in task.train_articles else _NOT_IN_TRAIN


# ---------------------------------------------------------------------------------------------------- words


def _tokens(fact: str, lengths: Iterable[int], own: OwnWords) -> list[str]:
    tokens, start = [], 0
    for length in lengths:
        tokens.append(fact[start : start + length])
        start += length
    own.see(tokens)
    return [word for word in tokens if not word.isspace() and word not in own.stop_words]


def _count_shared(fact: str, split: str, in_train: set[bytes], report: Report) -> None:
    digest = hashlib.blake2b(fact.encode(), digest_size=8).digest()
    if split == "train":
        in_train.add(digest)
    elif digest in in_train:
        report.counts[f"{split}_also_in_train"] += 1


# -------------------------------------------------------------------------------------------------- reading


_Official = dict[str, frozenset[str | int]]
"""Labels of the official lists that are there, by the name of one."""


def _official_lists(query: Query, report: Report) -> _Official:
    found: _Official = {}
    for role, name in _LISTS.items():
        path = query.inputs.get(role)
        if path is None:
            report.notes.append(f"no {name}: labels are not compared with that official list")
            continue
        lines = filled_lines(path, max_bytes=query.max_bytes, encodings=ENCODINGS)
        if role == "official_charges":
            found["charge"] = frozenset(_without_brackets(line) for _, line in lines if line.strip())
        else:
            found["article"] = frozenset(_article(line, f"{path}:{n}") for n, line in lines if line.strip())
    return found


def _cases(path: Path, max_bytes: int, official: _Official) -> Iterator[tuple[int, Case]]:
    """The cases of a file with the numbers of their lines; labels without a list are not compared."""
    for number, line in filled_lines(path, max_bytes=max_bytes, encodings=ENCODINGS):
        where = f"{path}:{number}"
        case = _parse_case(line, where)
        labels = {"charge": case.charges, "article": case.articles}
        for what, known in official.items():
            if unknown := [label for label in labels[what] if label not in known]:
                raise BadInputError(
                    f"{what} `{unknown[0]}` is not one of the {len(known)} entries of the official list",
                    where=where,
                    hint=did_you_mean(str(unknown[0]), map(str, known)),
                )
        yield number, case


def _parse_case(line: str, where: str) -> Case:
    record = parse_record(line, where, ("fact", "meta"))
    meta = _mapping(record["meta"], "meta", _META, where)
    term = _mapping(meta["term_of_imprisonment"], "term_of_imprisonment", _TERM, where)
    charges = [_charge(value, where) for value in _list(meta["accusation"], "accusation", where)]
    articles = [
        _article(value, where) for value in _list(meta["relevant_articles"], "relevant_articles", where)
    ]
    # a label that stands twice is one label
    return Case(
        fact=_fact(record["fact"], where),
        charges=tuple(dict.fromkeys(charges)),
        articles=tuple(dict.fromkeys(articles)),
        num_defendants=len(set(map(str, _list(meta["criminals"], "criminals", where)))),
        months=_months(term["imprisonment"], where),
        life_or_death=_flag(term, _TERM[0], where) | _flag(term, _TERM[1], where),
    )


def _fact(value: object, where: str) -> str:
    """The text of a case, without characters that have no width: they would split words."""
    text = check_text(value, "fact", where)
    return check_text(visible(text), "fact", where)


def _mapping(value: object, name: str, keys: tuple[str, ...], where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadInputError(f"expected an object as `{name}`, but got {shown(value)}", where=where)
    require_keys(value, keys, where, f" in `{name}`")
    return value


def _list(value: object, name: str, where: str) -> list[object]:
    if not isinstance(value, list):
        raise BadInputError(f"expected a list as `{name}`, but got {shown(value)}", where=where)
    return value


def _without_brackets(text: str) -> str:
    return text.replace("[", "").replace("]", "").strip()


def _charge(value: object, where: str) -> str:
    name = _without_brackets(value) if isinstance(value, str) else ""
    if not name:
        raise BadInputError(f"expected a charge's name in `accusation`, but got {shown(value)}", where=where)
    return name


def _article(value: object, where: str) -> int:
    text = _without_brackets(value) if isinstance(value, str) else str(whole(value))
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise BadInputError(f"expected the number of an article, but got {shown(value)}", where=where)
    return int(text)


def _months(value: object, where: str) -> int:
    months = None if isinstance(value, bool) else whole(value)
    if months is None or months < 0:
        raise BadInputError(
            f"expected a number of months as `imprisonment`, but got {shown(value)}", where=where
        )
    return months


def _flag(term: Mapping[str, object], name: str, where: str) -> bool:
    value = term[name]
    if not isinstance(value, bool):
        raise BadInputError(f"expected true or false as `{name}`, but got {shown(value)}", where=where)
    return value
