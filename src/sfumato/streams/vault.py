"""A publisher's state as sealed bytes: the third and last reason to open a private box.

Some schemes compare with raw counts of an earlier slot, so their state is private. It is
kept in the ledger's database, and sealed there with a key derived from the release key, which
is not in the database: SHAKE-256 (FIPS 202) as a stream cipher under a fresh nonce, and
HMAC-SHA-256 over nonce and text. Once the stream is finished the rows and the key are gone.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets
from typing import Any

import numpy as np

from sfumato.errors import PrivateNumbers, SfumatoError
from sfumato.model.private import Private, calling_module, is_bound
from sfumato.privacy.door import open_private

_NONCE = 16
_TAG = 32
_STORE = "sfumato.streams.state"
"""The one module under the wall's rules that packs: it seals what it gets."""


def packed(value: Any) -> bytes:
    """One part of a state as bytes: a letter for what it is, then JSON or an array.

    Not sealed yet, so whoever calls this with a box has opened it: `_STORE` alone may.
    """
    caller = calling_module()
    if not caller or (is_bound(caller) and caller not in (__name__, _STORE)):
        raise PrivateNumbers(
            f"{caller} may not pack a private state.", remedy="Let the store of the stream keep it."
        )
    if isinstance(value, Private):
        return b"P" + packed(open_private(value))
    if isinstance(value, np.ndarray):
        with io.BytesIO() as file:
            np.save(file, value, allow_pickle=False)
            return b"A" + file.getvalue()
    return b"J" + json.dumps(value).encode()


def unpacked(data: bytes) -> Any:
    kind, rest = data[:1], data[1:]
    if kind == b"P":
        return Private(unpacked(rest), "kept from an earlier slot")
    if kind == b"A":
        return np.load(io.BytesIO(rest), allow_pickle=False)
    return json.loads(rest)


def seal(data: bytes, key: bytes) -> bytes:
    """Nonce, ciphertext, tag."""
    nonce = secrets.token_bytes(_NONCE)
    text = _mixed(data, _branch(key, b"cipher"), nonce)
    return nonce + text + _tag(key, nonce + text)


def unseal(sealed: bytes, key: bytes) -> bytes:
    body, tag = sealed[:-_TAG], sealed[-_TAG:]
    if len(sealed) < _NONCE + _TAG or not hmac.compare_digest(tag, _tag(key, body)):
        raise altered()
    return _mixed(body[_NONCE:], _branch(key, b"cipher"), body[:_NONCE])


def altered() -> SfumatoError:
    return SfumatoError(
        "The state of this stream was changed or belongs to another key.",
        remedy="Restore the ledger and its keys from one and the same copy.",
    )


def _branch(key: bytes, use: bytes) -> bytes:
    return hmac.new(key, b"sfumato/stream/vault/1/" + use, hashlib.sha256).digest()


def _tag(key: bytes, body: bytes) -> bytes:
    return hmac.new(_branch(key, b"tag"), body, hashlib.sha256).digest()


def _mixed(data: bytes, key: bytes, nonce: bytes) -> bytes:
    pad = np.frombuffer(hashlib.shake_256(key + nonce).digest(len(data)), dtype=np.uint8)
    return (np.frombuffer(data, dtype=np.uint8) ^ pad).tobytes()
