"""Transactions that take their locks as their headers say never wait in a circle; one that swaps two does."""

import shutil

import pytest
from support.lock_headers import Lock

from .spin import MODELS, require_spin, verify
from .transactions import promela, transactions


@pytest.fixture
def check(tmp_path):
    """Check the lock model for a deadlock, with these transactions."""
    require_spin()
    shutil.copy(MODELS / "locks.pml", tmp_path)

    def check(found):
        (tmp_path / "transactions.pml").write_text(promela(found))
        return verify("locks.pml", tmp_path)

    return check


def swapped(transaction, first, second):
    """The transactions, where one takes two of its locks in the other order."""
    found = transactions()
    names = [lock.name for lock in found[transaction]]
    one, other = names.index(first), len(names) - 1 - names[::-1].index(second)
    locks = list(found[transaction])
    locks[one], locks[other] = locks[other], locks[one]
    return {**found, transaction: locks}


def test_the_transactions_of_the_headers_never_wait_in_a_circle(check):
    found = transactions()
    assert {"save_session_v5", "delete_session_v5", "claim", "compute", "publish", "rollover"} <= set(found)
    verdict = check(found)
    assert verdict.violated == ""
    assert verdict.states > 1000


@pytest.mark.parametrize(
    ("transaction", "first", "second"),
    [
        ("publish", "write", "state row"),
        ("publish", "write", "read models"),
        ("save_session_v5", "write", "canonical rows"),
    ],
)
def test_a_transaction_with_two_locks_swapped_waits_in_a_circle(check, transaction, first, second):
    assert check(swapped(transaction, first, second)).violated == "invalid end state"


def test_a_page_that_waits_for_write_instead_of_trying_it_waits_in_a_circle(check):
    found = transactions()
    waiting = [Lock(lock.name, "") if lock.name == "write" else lock for lock in found["rollover"]]
    assert check({**found, "rollover": waiting}).violated == "invalid end state"
