"""Optional packages hidden, as if they were not installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from sfumato.model import extras


class _Without:
    """A finder of modules that does not find those of some packages, and is itself otherwise."""

    def __init__(self, finder: Any, packages: tuple[str, ...]) -> None:
        self._finder, self._packages = finder, packages

    def find_spec(self, name: str, *where: Any) -> Any:
        hidden = name.partition(".")[0] in self._packages
        return None if hidden else self._finder.find_spec(name, *where)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hide(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    """As if it were not installed, for who imports and for who only looks.

    `sys.modules` holds no `None` for it: scipy takes whatever stands there under `torch` for torch.
    """
    packages = extras.EXTRAS[extra]
    for module in list(sys.modules):
        if module.partition(".")[0] in packages:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Without(finder, packages) for finder in sys.meta_path])
