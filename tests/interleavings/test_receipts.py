"""The same mutation from two devices at the same moment: one writes, the other gets the first one's receipt."""

from __future__ import annotations

import uuid

from support.races import DEADLINE, wait_until_blocked

from tasks.transaction import account as account_identity

from .scene import answer_of, outcome, picture, session, start_save

DELETE = "select public.delete_session_v5(cast(:session as uuid), :user, :mutation)"


def device(database, account, name):
    return session(database, name, account_identity(account.user_id))


def test_a_save_from_two_devices_at_once_is_written_once(database, app_account):
    payload = app_account.payload()
    with device(database, app_account, "phone") as phone, device(database, app_account, "watch") as watch:
        receipt = start_save(phone, app_account, payload).result(DEADLINE)
        saving = start_save(watch, app_account, payload)
        wait_until_blocked(database, watch, by=phone)
        phone.commit()
        assert outcome(saving) == {**receipt, "replayed": True}
    assert app_account.state() == (1, 0)


def test_a_delete_from_two_devices_at_once_is_done_once(database, app_account):
    doomed = app_account.save()
    arguments = {
        "session": doomed["session_id"],
        "user": app_account.user_id,
        "mutation": uuid.uuid4(),
    }
    with device(database, app_account, "phone") as phone, device(database, app_account, "watch") as watch:
        receipt = phone.run(DELETE, **arguments)
        deleting = watch.start(DELETE, **arguments)
        wait_until_blocked(database, watch, by=phone)
        phone.commit()
        assert outcome(deleting) == {**receipt, "replayed": True}
    assert app_account.state() == (2, 0)


def test_a_save_or_a_delete_that_is_sent_again_writes_nothing(database, app_account):
    payload, mutation = app_account.payload(), uuid.uuid4()
    saved = app_account.save_payload(payload)
    before = picture(database)
    assert answer_of(app_account.save_payload, payload) == {**saved, "replayed": True}
    assert picture(database) == before
    deleted = app_account.delete(saved["session_id"], mutation)
    before = picture(database)
    assert answer_of(app_account.delete, saved["session_id"], mutation) == {**deleted, "replayed": True}
    assert picture(database) == before
