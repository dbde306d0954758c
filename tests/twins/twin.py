"""What a twin is: which line goes, in which file, and which test misses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FUNCTIONS = Path(__file__).parents[2] / "sql" / "functions"


@dataclass(frozen=True)
class Twin:
    """One change to one SQL file, and the test that has to go red."""

    file: str
    line: str
    instead: str
    node: str

    def broken_text(self) -> str:
        """Return the file's text with the change. Raises ValueError where the line is not there exactly once."""
        text = (FUNCTIONS / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.line)) != 1:
            raise ValueError(f"{self.file} has this {found} times, the twin needs it once:\n{self.line}")
        return text.replace(self.line, self.instead)
