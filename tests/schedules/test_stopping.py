"""A beat that is told to end ends, wherever the signal meets it."""

from __future__ import annotations

import os
import subprocess
import sys

from support.rig import BEAT_READY, ROOT, Rig

LOSES_ITS_SIGNAL = """
import os, signal
from celery.apps.beat import Beat
from schedules.scheduler import StatsScheduler
from tasks.app import app

class Deaf(StatsScheduler):
    def apply_async(self, *args, **kwargs):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            pass  # as a destructor would lose it, which runs just then

Beat(app=app, scheduler_cls=Deaf, loglevel="INFO").run()
"""


def test_a_beat_ends_although_the_exception_of_its_signal_was_lost(beat_rig: Rig) -> None:
    urls = {"DATABASE_URL": "postgresql://nobody@nowhere/none", "REDIS_URL": beat_rig.valkey.redis_url}
    ended = subprocess.run(
        [sys.executable, "-c", LOSES_ITS_SIGNAL],
        cwd=ROOT,
        env=os.environ | {f"STATS_REFRESH_{name}": url for name, url in urls.items()},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    # Its lock is free: another needs no time to take over.
    beat_rig.beat().wait_for(BEAT_READY, deadline=3)
