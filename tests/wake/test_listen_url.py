"""The listener's own address, for setups whose pooler hands out connections that can't LISTEN."""

from __future__ import annotations

from sqlalchemy import make_url
from support.app import AppAccount
from support.rig import Rig, soon

from tasks.listener import APPLICATION_NAME

DIRECT = "a session beside the pooler"


def sessions(rig: Rig, name: str) -> int:
    [[count]] = rig.database.admin(
        "select count(*) from pg_stat_activity where application_name = :name", name=name
    )
    return count


def test_the_listener_alone_uses_its_own_url(full_rig: Rig) -> None:
    """No beat runs: a save is published only because that session heard of it."""
    direct = make_url(full_rig.database.url).update_query_dict({"application_name": DIRECT})
    worker = full_rig.worker(
        "pipeline",
        "compute",
        listen_database_url=direct.render_as_string(hide_password=False),
    )
    worker.wait_for("listening for saves")
    assert (sessions(full_rig, DIRECT), sessions(full_rig, APPLICATION_NAME)) == (1, 0)

    person = AppAccount(full_rig.database)
    person.save()

    assert soon(lambda: person.state() == (1, 1), 10), worker.tail()
    assert (sessions(full_rig, DIRECT), sessions(full_rig, "stats-refresh")) == (1, 1)
