"""Fixtures for reading files."""

from __future__ import annotations

from support.real_files import real_file

__all__ = ["real_file"]
