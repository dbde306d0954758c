"""A storm: rounds of load and faults on one stack, each followed by quiet, and by the question what is true now."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from faults import invariants
from faults.kinds import possible
from faults.load import Client, Person, cast
from faults.plan import Kind, Lane, Planned, faults
from faults.readers import Reader
from faults.recovery import Recoveries
from faults.scene import Scene
from faults.stack import Stack, whole_stack
from faults.watch import Watch

PEOPLE = 24
CLIENTS = 4
READERS = 2
ROUND_SECONDS = 60
_JOINED_WITHIN = 180


@dataclass(frozen=True)
class Injected:
    """A fault as it happened."""

    kind: str
    lane: Lane
    began: float
    ended: float
    in_flight: bool
    what: str


@dataclass
class Round:
    """What happened in one round, and what was wrong afterwards."""

    number: int
    injected: list[Injected] = field(default_factory=list)
    recovered_within: dict[str, float] = field(default_factory=dict)
    """The longest time by kind from a fault's end until all was published that had been waiting then."""
    settled_within: float = 0.0
    writes: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    compared: int = 0
    killed: list[str] = field(default_factory=list)
    """The processes that did not end when they were asked to, with what they said last."""
    findings: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    """Where something did not recover: what every part said for itself then."""
    timeline: list[tuple[float, str]] = field(default_factory=list)


@dataclass
class Storm:
    """A seed and what came of it."""

    seed: int
    left_out: dict[str, str]
    rounds: list[Round] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        return [finding for one in self.rounds for finding in one.findings]


def run(
    seed: int,
    seconds: float,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    round_seconds: float = ROUND_SECONDS,
    say: Callable[[str], None] = lambda _: None,
) -> Storm:
    """Let a storm go on for so long, until a round has findings at the latest, and return what came of it.

    Each round stands for itself: it begins with accounts of its own on the stack that the rounds before it left.
    """
    kinds, left_out = possible(only, without)
    storm = Storm(seed, left_out)
    ends_at = time.monotonic() + seconds
    events: list[tuple[float, str]] = []
    with whole_stack(lambda text: events.append((time.monotonic(), text))) as stack:
        while not storm.findings and (time.monotonic() < ends_at or not storm.rounds):
            say(f"round {len(storm.rounds) + 1} of seed {seed}")
            director = _Director(stack, kinds, seed, Round(len(storm.rounds)), events)
            storm.rounds.append(director.round)
            director.play(round_seconds)
    return storm


@dataclass
class _Director:
    """Plays one round."""

    stack: Stack
    kinds: Sequence[Kind]
    seed: int
    round: Round
    events: list[tuple[float, str]]
    over: threading.Event = field(default_factory=threading.Event)

    def play(self, seconds: float) -> None:
        self.events.clear()
        began = time.monotonic()
        try:
            self._play(seconds)
        except Exception:
            # The seed and the timeline are wanted all the same.
            self.round.findings.append(f"the round was not played to its end:\n{traceback.format_exc()}")
        self.round.timeline = sorted((at - began, text) for at, text in self.events)

    def _play(self, seconds: float) -> None:
        before = invariants.failed_attempts(self.stack)
        self.stack.slow_the_stages()
        people = cast(self.stack.database, PEOPLE)
        clients = [self._client(people[place::CLIENTS], place) for place in range(CLIENTS)]
        readers = [self._reader(people[place::READERS], place) for place in range(READERS)]
        recoveries = Recoveries(self.stack, self.round.recovered_within)
        with ThreadPoolExecutor(20, "round") as threads:
            try:
                threads.submit(recoveries.run)
                jobs = [threads.submit(one.run) for one in (*clients, *readers)]
                jobs += [threads.submit(self._inject, lane, people, recoveries) for lane in Lane]
                self.over.wait(seconds)
                self._end_the_faults(jobs)
                self._judge(people, clients, readers, before)
            finally:
                self.over.set()
                recoveries.stop()

    def _end_the_faults(self, jobs: Sequence[Future[None]]) -> None:
        self.over.set()
        self._note("the faults end")
        # A client may wait for an answer that a silent connection owes it.
        self.stack.proxy.end_silence()
        for job in jobs:
            job.result(_JOINED_WITHIN)
        self.round.findings += self.stack.heal()
        self._note("everything runs again")

    def _judge(
        self,
        people: Sequence[Person],
        clients: Sequence[Client],
        readers: Sequence[Reader],
        failed_before: Counter[str],
    ) -> None:
        ours, began = self.round, time.monotonic()
        settled = invariants.wait_until_settled(self.stack)
        ours.settled_within = time.monotonic() - began
        settled = settled or invariants.wait_until_rolled_over(self.stack)
        if settled or ours.findings:
            ours.evidence = invariants.evidence(self.stack)
        for client in clients:
            client.send_everything_again()
            ours.writes += client.done
            ours.repeated += client.repeated
        ours.failed = invariants.failed_attempts(self.stack) - failed_before
        verdict = invariants.judge_answers(self.stack, people, clients, readers)
        ours.reads, ours.compared = sum(len(reader.reads) for reader in readers), verdict.compared
        # What still waits is not published, which would only say the same once more.
        ours.findings += settled or invariants.findings(self.stack, people, clients)
        ours.findings += verdict.problems
        ours.findings += invariants.contention_counted(ours.failed)
        for kept in self.stack.kept:
            ours.findings += kept.ended_by_itself
            kept.ended_by_itself = []
            ours.killed += kept.killed
            kept.killed = []
        self._note(f"settled after {ours.settled_within:.1f} s, {len(ours.findings)} findings")

    def _inject(self, lane: Lane, people: Sequence[Person], recoveries: Recoveries) -> None:
        watch = Watch(self.stack)
        try:
            for planned in faults(self.seed, self.round.number, lane, self.kinds):
                self.over.wait(planned.rest)
                if self.over.is_set():
                    return
                self._one(planned, people, watch, recoveries)
        finally:
            watch.close()

    def _one(self, planned: Planned, people: Sequence[Person], watch: Watch, recoveries: Recoveries) -> None:
        kind = planned.kind
        began = time.monotonic()
        self._note(f"{kind.name} ...")
        outcome = kind.inject(Scene(self.stack, people, watch, planned.dice, self.over))
        ended = time.monotonic()
        self._note(f"{kind.name}: {outcome.what}{'' if outcome.in_flight else ' (nothing in flight)'}")
        self.round.injected.append(
            Injected(kind.name, kind.lane, began, ended, outcome.in_flight, outcome.what)
        )
        recoveries.expect(kind.name)

    def _client(self, people: list[Person], place: int) -> Client:
        dice = random.Random(f"{self.seed}/{self.round.number}/client {place}")
        return Client(people, dice, self.over, self.stack.database)

    def _reader(self, people: list[Person], place: int) -> Reader:
        dice = random.Random(f"{self.seed}/{self.round.number}/reader {place}")
        return Reader(f"reader {place}", people, dice, self.over)

    def _note(self, text: str) -> None:
        self.events.append((time.monotonic(), text))
