/* Transactions on one account that take locks in the order that their headers give, for Spin: nobody waits in a circle.
 *
 * The transactions are made from the `-- Locks:` lines of sql/functions (tests/model/transactions.py writes
 * transactions.pml): a lock with `try` or `skip locked` is not waited for, any other is, and all are kept to the end.
 * Row locks of several rows count as one lock, a key share as exclusive: both only add waiting.
 *
 * Checked: no deadlock, which Spin calls an invalid end state.
 */

#define FREE  0
#define ME    (_pid + 1)

#include "transactions.pml"

byte lock_holder[LOCKS];

inline take(lock) {
  atomic { lock_holder[lock] == FREE || lock_holder[lock] == ME -> lock_holder[lock] = ME }
}

/* An advisory lock that is tried: where somebody has it, the transaction ends without what stands behind it. */
inline attempt(lock) {
  atomic {
    if
    :: lock_holder[lock] == FREE || lock_holder[lock] == ME -> lock_holder[lock] = ME
    :: else -> goto release
    fi
  }
}

/* Rows that are taken by SKIP LOCKED: where somebody has them, the transaction goes on without. */
inline skip_locked(rows) {
  atomic {
    if
    :: lock_holder[rows] == FREE || lock_holder[rows] == ME -> lock_holder[rows] = ME
    :: else
    fi
  }
}

active [3] proctype transaction() {
  byte i;
end:
  do
  :: if
     ANY_TRANSACTION
     fi;
release: skip;
     d_step {
       i = 0;
       do
       :: i < LOCKS ->
          if
          :: lock_holder[i] == ME -> lock_holder[i] = FREE
          :: else
          fi;
          i++
       :: else -> break
       od;
       i = 0
     }
  od
}
