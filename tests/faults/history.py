"""Judges what readers and clients noted during a storm. Pure: it asks neither a database nor a clock.

For each reader an account's generations never go back; one generation has one content; a generation is never ahead of
what was requested; and what a receipt promised is known to every read that began after it, and is in the generation
that it named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

CLEARED_LINKS = "session_id"
"""A deleted session's links are cleared in published rows at once, so they are no part of a generation's content."""
OF_THE_FRAME = frozenset({"generation", "requested_version", "stale", "generated_at"})


@dataclass(frozen=True)
class Read:
    """One answer of a reading function. `question` is the function and its arguments."""

    reader: str
    began: float
    account: UUID
    question: tuple[str, ...]
    generation: int
    requested: int
    stale: bool
    content: str


@dataclass(frozen=True)
class Promise:
    """A receipt, received at `at`: the write is in `generation` and in every later one."""

    at: float
    account: UUID
    generation: int


@dataclass
class History:
    """Everything that was noted, each list in the order of the one who noted it."""

    reads: list[Read] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)


Expected = Callable[[Read], str | None]
"""The content that an answer that is not stale has to have; None where nobody knows it."""


@dataclass(frozen=True)
class Verdict:
    """What is wrong, a line each, and how many answers could be held against the reckoning."""

    problems: list[str]
    compared: int


def judge(history: History, expected: Expected) -> Verdict:
    """Return everything that the history shows to be wrong."""
    compared: Counter[bool] = Counter()
    problems = [
        *_going_back(history.reads),
        *_ahead_of_the_request(history.reads),
        *_two_contents(history.reads),
        *_forgotten_promises(history.reads, history.promises),
        *_wrong_content(history.reads, expected, compared),
    ]
    return Verdict(problems, compared.total())


def _going_back(reads: Iterable[Read]) -> Iterator[str]:
    newest: dict[tuple[str, UUID], int] = {}
    for read in reads:
        before = newest.get((read.reader, read.account), 0)
        if read.generation < before:
            yield f"{_name(read)} went back from generation {before} to {read.generation}"
        newest[read.reader, read.account] = max(before, read.generation)


def _ahead_of_the_request(reads: Iterable[Read]) -> Iterator[str]:
    for read in reads:
        if read.generation > read.requested:
            yield f"{_name(read)} answered generation {read.generation}, and {read.requested} was requested"
        if read.stale != (read.generation < read.requested):
            yield f"{_name(read)} says stale={read.stale} at {read.generation} of {read.requested}"


def _two_contents(reads: Iterable[Read]) -> Iterator[str]:
    first: dict[tuple[UUID, int, tuple[str, ...]], Read] = {}
    for read in reads:
        known = first.setdefault((read.account, read.generation, read.question), read)
        if known.content != read.content:
            yield (
                f"generation {read.generation} of {read.account} has two contents: {_name(known)} read"
                f" {known.content}, {_name(read)} read {read.content}"
            )


def _forgotten_promises(reads: Iterable[Read], promises: Iterable[Promise]) -> Iterator[str]:
    """A read that began after a receipt knows its generation; an answer that is not stale has it."""
    by_account: dict[UUID, list[Promise]] = defaultdict(list)
    for promise in sorted(promises, key=lambda one: one.at):
        newest = by_account[promise.account]
        if newest and promise.generation <= newest[-1].generation:
            yield f"{promise.account} was promised {promise.generation} after {newest[-1].generation}"
        newest.append(promise)
    for read in reads:
        promised = _newest_before(by_account[read.account], read.began)
        if read.requested < promised:
            yield f"{_name(read)} knows of {read.requested} alone, {promised} had been promised before it asked"


def _newest_before(promises: Sequence[Promise], moment: float) -> int:
    return max((promise.generation for promise in promises if promise.at < moment), default=0)


def _wrong_content(reads: Iterable[Read], expected: Expected, compared: Counter[bool]) -> Iterator[str]:
    for read in reads:
        right = None if read.stale else expected(read)
        if right is None:
            continue
        compared[right == read.content] += 1
        if right != read.content:
            yield (
                f"{_name(read)} read of generation {read.generation} of {read.account}: {read.content},"
                f" its rows give {right}"
            )


def _name(read: Read) -> str:
    return f"{read.reader} ({' '.join(read.question)}, {read.account})"


def without_links(answer: Any) -> Any:
    """Return the answer without what may differ between two readings of one generation."""
    if isinstance(answer, dict):
        return {
            key: without_links(value)
            for key, value in answer.items()
            if key not in OF_THE_FRAME and not key.endswith(CLEARED_LINKS)
        }
    return [without_links(one) for one in answer] if isinstance(answer, list) else answer
