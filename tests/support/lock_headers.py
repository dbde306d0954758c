"""What the headers of the SQL files say of locks, and the order that docs/locking.md gives them."""

import re
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "locking.md"


@dataclass(frozen=True)
class Lock:
    """A lock of a `-- Locks:` line, and what stands in brackets behind it."""

    name: str
    how: str


def places():
    """The places of each lock in the documented order."""
    found: dict[str, list[int]] = {}
    for place, lock in re.findall(r"^\| (\d+) \| `([\w ]+)` \|", DOCUMENT.read_text(), flags=re.MULTILINE):
        found.setdefault(lock, []).append(int(place))
    return found


def lock_lines(text):
    """Each `-- Locks:` of a file, with the lines that continue it."""
    return re.findall(r"^-- Locks: (.*(?:\n--   .*)*)", text, flags=re.MULTILINE)


def locks_of(line):
    """The locks that a line lists in their order, without what stands after a semicolon outside of brackets."""
    found = re.findall(r"([^,;()]+)(?:\(([^()]*)\))?[^,;()]*(?:[,;]|$)", line.replace("\n--", " "))
    listed = []
    for name, how in found:
        name = re.sub(r"\s+", " ", name).strip()
        if name and name != "none" and not name.startswith(("none ", "as ", "then every row")):
            listed.append(Lock(name, how.strip()))
    return listed
