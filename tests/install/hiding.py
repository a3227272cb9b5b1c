"""Optional packages hidden, as if they were not installed."""

from __future__ import annotations

import sys

import pytest

from sfumato.model import extras


def hide(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    """As if it were not installed, for who imports and for who only looks."""
    for module in list(sys.modules):
        if module.partition(".")[0] in extras.EXTRAS[extra]:
            monkeypatch.delitem(sys.modules, module)
    for module in extras.EXTRAS[extra]:
        monkeypatch.setitem(sys.modules, module, None)
