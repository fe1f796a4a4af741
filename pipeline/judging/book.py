"""The book of answers: one SQLite file, in which an answer stands before anybody is told that it does."""

import datetime
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.errors import PipelineError
from pipeline.judging.sheet import BOOK, Sheet
from pipeline.web.tokens import new_token, same

IDLE_S = 900
"""Seconds after which another browser may go on with a sheet without being asked."""
_TABLES = """
CREATE TABLE sheet (digest TEXT NOT NULL);
CREATE TABLE judge (number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, session TEXT, seen_at REAL);
CREATE TABLE answer (
    judge INTEGER NOT NULL REFERENCES judge, slot INTEGER NOT NULL, content TEXT NOT NULL,
    is_complete INTEGER NOT NULL, saved_at TEXT NOT NULL, PRIMARY KEY (judge, slot)
);
"""


@dataclass(frozen=True, slots=True)
class Answer:
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
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        found = self._connection.execute("SELECT digest FROM sheet").fetchone()
        if found is None or found[0] != sheet.digest:
            raise PipelineError(
                f"the answers belong to sheet {found and found[0]}, not to {sheet.digest}",
                where=str(self.path),
            )

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
        with self._lock:
            rows = self._connection.execute("SELECT token FROM judge ORDER BY number").fetchall()
        return [token for (token,) in rows]

    def judge_of(self, token: str) -> int | None:
        """The judge whose link it is; None: nobody's."""
        matches = [number for number, known in enumerate(self.tokens()) if same(known, token)]
        return matches[0] if matches else None

    def enter(self, judge: int, session: str, now: float, *, insist: bool = False) -> bool:
        """Whether this browser may go on with a judge's sheet; then it is the one that does.

        Args:
            now: seconds since the epoch.
            insist: take the sheet over from another browser.
        """
        with self._transaction() as connection:
            holder, seen_at = connection.execute(
                "SELECT session, seen_at FROM judge WHERE number = ?", (judge,)
            ).fetchone()
            is_free = holder in (None, session) or now - seen_at > IDLE_S
            if is_free or insist:
                connection.execute(
                    "UPDATE judge SET session = ?, seen_at = ? WHERE number = ?", (session, now, judge)
                )
        return is_free or insist

    def save(self, judge: int, slot: int, content: Mapping[str, Any], *, is_complete: bool) -> None:
        """Keep an answer, in place of an earlier one; it is on the disk when this returns.

        Raises:
            sqlite3.Error: if it cannot be written; then the earlier one stands.
        """
        with self._transaction() as connection:
            _put(connection, judge, slot, content, is_complete)

    def save_all(self, found: Mapping[tuple[int, int], Answer]) -> None:
        """Keep many answers, by judge and slot: all of them, or none."""
        with self._transaction() as connection:
            for (judge, slot), answer in found.items():
                _put(connection, judge, slot, answer.content, answer.is_complete)

    def answers(self, judge: int) -> dict[int, Answer]:
        """The answers of a judge by slot."""
        query = "SELECT slot, content, is_complete, saved_at FROM answer WHERE judge = ? ORDER BY slot"
        with self._lock:
            rows = self._connection.execute(query, (judge,)).fetchall()
        return {slot: Answer(json.loads(content), bool(done), at) for slot, content, done, at in rows}

    def num_complete(self) -> list[int]:
        """Finished showings of each judge."""
        query = "SELECT number, COALESCE(SUM(is_complete), 0) FROM judge LEFT JOIN answer ON judge = number"
        with self._lock:
            rows = self._connection.execute(f"{query} GROUP BY number ORDER BY number").fetchall()
        return [int(count) for _, count in rows]


def _put(
    connection: sqlite3.Connection, judge: int, slot: int, content: Mapping[str, Any], is_complete: bool
) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    row = (judge, slot, json.dumps(content), int(is_complete), now)
    connection.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?, ?)", row)
