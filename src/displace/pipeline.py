"""Every verb of the command line as a function."""

from __future__ import annotations
