"""The transactions of the lock model: each file of sql/functions that begins one, with the locks of its header."""

import re

from support.lock_headers import Lock, lock_lines, locks_of

from sql.functions import sql_files

ROWS_OF_AN_ACCOUNT = (
    "state row",
    "job rows",
    "canonical rows",
    "read models",
    "rollover rows",
    "private outputs",
)
"""What `then every row of the account` waits for."""


def transactions():
    """Each public function that takes locks, with the locks of its file's first line, in their order."""
    found = {}
    for file in sql_files():
        begins = re.search(
            r"^-- public\.\w+.*?^-- Locks: .*?$(?:\n--   .*)*", file.text, re.MULTILINE | re.DOTALL
        )
        if begins is None:
            continue
        line = lock_lines(begins.group())[0]
        locks = [lock for lock in locks_of(line) if not lock.how.startswith("its own: inserted here")]
        if "then every row of the account" in line:
            locks += [Lock(rows, "") for rows in ROWS_OF_AN_ACCOUNT]
        if locks:
            found[file.name.rpartition("/")[2].removesuffix(".sql")] = locks
    return found


def promela(found):
    """Write the transactions as Promela: one number a lock, one inline a transaction, and the choice among them."""
    names = sorted({lock.name for locks in found.values() for lock in locks})
    lines = [f"#define {_word(name)} {number}" for number, name in enumerate(names)]
    lines += [f"#define LOCKS {len(names)}"]
    # Who takes one lock alone waits for nobody while holding it, and those that take the same locks count once.
    told_apart = {tuple(locks): transaction for transaction, locks in found.items() if len(locks) > 1}
    for locks, transaction in told_apart.items():
        steps = "; ".join(f"{_way(lock)}({_word(lock.name)})" for lock in locks)
        lines.append(f"inline {transaction}() {{ {steps} }}")
    choices = " ".join(f":: true -> {transaction}()" for transaction in told_apart.values())
    return "\n".join([*lines, f"#define ANY_TRANSACTION {choices}", ""])


def _way(lock):
    if lock.how.startswith("try"):
        return "attempt"
    return "skip_locked" if lock.how.startswith("skip locked") else "take"


def _word(name):
    return name.replace(" ", "_").upper()
