"""The model of one account keeps its promises; without any one of the guards, the promise that it carries fails."""

import pytest

from .spin import MODELS, require_spin, verify

ACCOUNT = MODELS / "account.pml"
FRESH = "assertion violated (((applied==requested)&&(shown[0]==stored[0]))&&(shown[1]==stored[1]))"


@pytest.fixture
def check(tmp_path):
    """Check the account's model."""
    require_spin()

    def check(*macros, formula=False):
        return verify(ACCOUNT, tmp_path, *macros, formula=formula)

    return check


def test_every_promise_holds_in_every_interleaving(check):
    verdict = check()
    assert verdict.violated == ""
    assert verdict.states > 100_000


def test_nobody_goes_round_for_ever(check):
    # Two generations: with three the search takes a minute.
    verdict = check("GENERATIONS=2", formula=True)
    assert verdict.violated == ""
    assert verdict.states > 100_000


@pytest.mark.parametrize(
    ("guard", "promise"),
    [
        ("NO_FENCE", "assertion violated ( !(current.leased)||(0==current.token))"),
        ("NO_TOKEN_CHECK", "assertion violated ( !(current.leased)||(named==current.token))"),
        ("CLAIM_TAKES_FREE_ROWS_ONLY", "assertion violated (shown[session_of[i]]>=i)"),
        ("CONTENTION_IS_FAILURE", FRESH),
        ("NO_REFERENCE_CHECK", "assertion violated  !((current.refers[0]&&deleted[0]))"),
    ],
)
def test_without_a_guard_its_promise_fails(check, guard, promise):
    assert check(guard).violated == promise


def test_a_claim_that_steps_over_a_held_row_skips_its_generation(check):
    """The promise that the table above names, told by the formula too: it is no accident of one assertion."""
    assert check("GENERATIONS=2", "CLAIM_TAKES_FREE_ROWS_ONLY", formula=True).violated
