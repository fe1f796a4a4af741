"""The book of answers: one SQLite file, in which an answer stands before anybody is told that it does."""

import datetime
import json
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feature_store.errors import shown
from feature_store.wording import counted
from pipeline.base import full_disk
from pipeline.base.errors import PipelineError
from pipeline.judging.guide import SCALES
from pipeline.judging.sheet import BOOK, JUDGE, Sheet
from pipeline.web.tokens import new_token, same

IDLE_S = 900
"""Seconds after which another window may continue a sheet without being asked."""
_TABLES = """
CREATE TABLE sheet (digest TEXT NOT NULL);
CREATE TABLE judge (number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, session TEXT, seen_at REAL);
CREATE TABLE answer (
    judge INTEGER NOT NULL REFERENCES judge, slot INTEGER NOT NULL, content TEXT NOT NULL,
    is_complete INTEGER NOT NULL, saved_at TEXT NOT NULL, PRIMARY KEY (judge, slot)
);
"""
_IS_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)
"""Codes of SQLite where a file is none of its own, is damaged, or lacks a table."""
_DAMAGED = (
    "restore this file from a copy; without a copy, create the sheet again in another folder, with the same "
    "flags, and use `--import` to read the files that `--export` wrote"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a person said of one showing."""

    content: dict[str, Any]
    """Scores by scale, None where one is missing; or `rationale`, spans of tokens."""
    is_complete: bool
    saved_at: str = ""


class Book:
    """The answers to a sheet; threads may share one, and processes may have one each."""

    def __init__(self, folder: Path, sheet: Sheet) -> None:
        self.path = folder / BOOK
        if not self.path.is_file():
            raise PipelineError(f"the answers are missing: there is no `{BOOK}`", where=str(folder))
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            self.path, timeout=10, isolation_level=None, check_same_thread=False
        )
        try:
            self._tokens = self._opened(sheet)
        except BaseException as error:
            self._connection.close()
            if not isinstance(error, sqlite3.Error) or full_disk.is_meant(error):
                raise
            raise PipelineError(
                f"the answers cannot be read: {error}",
                where=str(self.path),
                hint=_DAMAGED if error.sqlite_errorcode in _IS_DAMAGED else None,
            ) from error

    def _opened(self, sheet: Sheet) -> list[str]:
        """The tokens of a book that is whole and belongs to a sheet.

        Raises:
            PipelineError: if it is damaged, or belongs to another one.
            sqlite3.Error: if it cannot be read.
        """
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise self._damaged(state)
        found = connection.execute("SELECT digest FROM sheet").fetchone()
        if found is None or found[0] != sheet.digest:
            raise PipelineError(
                f"the answers belong to {'no sheet' if found is None else f'sheet {found[0]}'}, not to "
                f"{sheet.digest}",
                where=str(self.path),
            )
        for judge, slot, content in connection.execute("SELECT judge, slot, content FROM answer"):
            if not _fits(sheet, judge, slot, content):
                raise self._damaged(f"one of the answers is {shown(content)}")
        tokens = [token for (token,) in connection.execute("SELECT token FROM judge ORDER BY number")]
        if len(tokens) != len(sheet.plan):
            raise self._damaged(f"expected {counted(len(sheet.plan), 'link')}, but there are {len(tokens)}")
        return tokens

    def _damaged(self, how: str) -> PipelineError:
        return PipelineError(f"the answers are damaged: {how}", where=str(self.path), hint=_DAMAGED)

    @staticmethod
    def make(folder: Path, sheet: Sheet) -> None:
        """Write an empty book, with a secret link for each judge."""
        path = folder / BOOK
        path.touch(mode=0o600)  # whoever reads a link may answer in its judge's name
        connection = sqlite3.connect(path)
        try:
            connection.executescript(_TABLES)
            connection.execute("INSERT INTO sheet VALUES (?)", (sheet.digest,))
            tokens = [(number, new_token()) for number in range(len(sheet.plan))]
            connection.executemany("INSERT INTO judge (number, token) VALUES (?, ?)", tokens)
            connection.commit()
        finally:
            connection.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on the disk when the block has ended."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def tokens(self) -> list[str]:
        """The secret part of each judge's link."""
        return [*self._tokens]

    def judge_of(self, token: str) -> int | None:
        """The judge whose link it is; None: nobody's."""
        matches = [number for number, known in enumerate(self._tokens) if same(known, token)]
        return matches[0] if matches else None

    def enter(
        self, judge: int, window: str, now: float, *, before: Collection[str] = (), insist: bool = False
    ) -> bool:
        """Whether this window may continue a judge's sheet; then it is the only one that may save.

        Args:
            window: what the page that is open in it calls itself; every page that is opened has another name.
            now: seconds since the epoch.
            before: pages that this one comes after in its window, or that are closed.
            insist: take the sheet over from any other window.
        """
        with self._transaction() as connection:
            holder, seen_at = connection.execute(
                "SELECT session, seen_at FROM judge WHERE number = ?", (judge,)
            ).fetchone()
            is_free = holder in (None, window, *before) or now - seen_at > IDLE_S
            if is_free or insist:
                connection.execute(
                    "UPDATE judge SET session = ?, seen_at = ? WHERE number = ?", (window, now, judge)
                )
        return is_free or insist

    def save(self, judge: int, slot: int, answer: Judgement, window: str, now: float) -> bool:
        """Keep an answer, in place of an earlier one; it is on the disk when this returns.

        Args:
            window: that the answer comes from.
            now: seconds since the epoch.

        Returns:
            Whether it was kept; not if another window continues the sheet.

        Raises:
            sqlite3.Error: if it cannot be written; then the earlier one stands.
        """
        with self._transaction() as connection:
            seen = "UPDATE judge SET seen_at = ? WHERE number = ? AND session = ?"
            if connection.execute(seen, (now, judge, window)).rowcount == 0:
                return False
            _put(connection, judge, slot, answer)
        return True

    def save_all(self, found: Mapping[tuple[int, int], Judgement]) -> None:
        """Keep many answers, by judge and slot: all of them, or none."""
        with self._transaction() as connection:
            for (judge, slot), answer in found.items():
                _put(connection, judge, slot, answer)

    def answers(self, judge: int) -> dict[int, Judgement]:
        """The answers of a judge by slot."""
        query = "SELECT slot, content, is_complete, saved_at FROM answer WHERE judge = ? ORDER BY slot"
        with self._lock:
            rows = self._connection.execute(query, (judge,)).fetchall()
        return {slot: Judgement(json.loads(content), bool(done), at) for slot, content, done, at in rows}

    def num_complete(self) -> list[int]:
        """Finished showings of each judge."""
        query = "SELECT number, COALESCE(SUM(is_complete), 0) FROM judge LEFT JOIN answer ON judge = number"
        with self._lock:
            rows = self._connection.execute(f"{query} GROUP BY number ORDER BY number").fetchall()
        return [int(count) for _, count in rows]


def _fits(sheet: Sheet, judge: int, slot: int, content: str) -> bool:
    """Whether a row of the answers is one that a page or an import has written."""
    try:
        answer = json.loads(content)
    except ValueError:
        return False
    keys = set(SCALES) if sheet.kind == JUDGE else {"rationale"}
    is_shown = 0 <= judge < len(sheet.plan) and 0 <= slot < len(sheet.plan[judge])
    return is_shown and isinstance(answer, dict) and answer.keys() == keys


def _put(connection: sqlite3.Connection, judge: int, slot: int, answer: Judgement) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    row = (judge, slot, json.dumps(answer.content), int(answer.is_complete), now)
    connection.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?, ?)", row)
