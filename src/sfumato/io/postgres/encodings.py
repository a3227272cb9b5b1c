"""Texts of a database that is not UTF-8, value by value.

A server that converts to UTF-8 stops at the first value that has no letters there (byte 81 in
Windows-1252, any odd byte in SQL_ASCII), and with it everybody's rows. So texts of such databases
travel as the bytes that are stored, and each is converted here by itself; one that cannot be is
missing. SQL_ASCII says nothing about its bytes: they are taken for UTF-8, which
`sfumato.io.rows` judges. From a UTF-8 database texts come as they are and are judged there too.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sfumato.io.postgres.columns import UTF8
from sfumato.model.errors import InputError

SQL_ASCII = "SQL_ASCII"
_CODECS = {
    **{
        f"LATIN{n}": f"iso8859-{part}"
        for n, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)
    },
    **{f"ISO_8859_{n}": f"iso8859-{n}" for n in (5, 6, 7, 8)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, *range(1250, 1259))},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "EUC_CN": "gb2312",
    "EUC_JIS_2004": "euc_jis_2004",
}


def check_encoding(encoding: str, label: str) -> None:
    """Refuse a database whose texts we cannot convert."""
    if encoding not in (UTF8, SQL_ASCII) and encoding not in _CODECS:
        raise InputError(
            f"the database is in the encoding {encoding}, which is not read.",
            file=label,
            remedy="Read a copy of it in UTF8.",
        )


def as_utf8(column: Any, encoding: str) -> Any:
    """The bytes of texts in UTF-8; a value that is no text of the encoding is missing."""
    if encoding in (UTF8, SQL_ASCII):
        return column
    coded = column.dictionary_encode()
    texts = [_converted(value, _CODECS[encoding]) for value in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.binary()).take(coded.indices)


def _converted(value: bytes, codec: str) -> bytes | None:
    try:
        return value.decode(codec).encode()
    except UnicodeError:
        return None
