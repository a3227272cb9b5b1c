"""A secret planted in a record must never come out in an error.

`refused(call)` runs the call, wants one of our errors, and looks for the secret in its text, its
traceback and what the command prints for it.
"""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable
from unittest.mock import patch

import pytest

from sfumato.cli import main
from sfumato.errors import SfumatoError

SECRET = "Zq7SECRETx9"
SECRET_NUMBER = 48_151_623_42
"""Plant the text or the number in the record that is at fault."""


def printed(error: SfumatoError) -> str:
    """What the command shows for an error."""

    def fail(**_: object) -> None:
        raise error

    stream = io.StringIO()
    with (
        patch.object(main, "app", fail),
        contextlib.redirect_stderr(stream),
        pytest.raises(SystemExit),
    ):
        main.run()
    return stream.getvalue()


def refused(call: Callable[[], object]) -> str:
    """The error's text, after looking for the secret wherever a user could see it."""
    with pytest.raises(SfumatoError) as caught:
        call()
    shown = printed(caught.value)
    assert "error:" in shown
    for text in (str(caught.value), "".join(traceback.format_exception(caught.value)), shown):
        assert SECRET not in text
        assert str(SECRET_NUMBER) not in text
    return str(caught.value)
