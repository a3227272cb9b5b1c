from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.city import IdKind
from sfumato.city.plan import id_array, integer_ids


@given(key=st.integers(0, 2**63 - 1), first=st.integers(0, 2**40))
def test_ids_are_distinct_positive_and_in_no_order(key: int, first: int) -> None:
    ids = integer_ids(np.arange(first, first + 2_000), key)
    assert np.unique(ids).size == 2_000
    assert (ids >= 0).all()
    rising = (np.diff(ids) > 0).mean()
    assert 0.4 < rising < 0.6


def test_another_key_gives_other_ids() -> None:
    users = np.arange(1_000)
    assert not np.isin(integer_ids(users, 1), integer_ids(users, 2)).any()


@pytest.mark.parametrize(("kind", "length"), [(IdKind.TEXT, 32), (IdKind.BINARY, 16)])
def test_text_and_binary_ids(kind: IdKind, length: int) -> None:
    ids = id_array(np.arange(5_000), 7, kind).to_pylist()
    assert len(set(ids)) == 5_000
    assert {len(one) for one in ids} == {length}


def test_text_is_the_hexadecimal_form_of_binary() -> None:
    text = id_array(np.arange(50), 7, IdKind.TEXT).to_pylist()
    binary = id_array(np.arange(50), 7, IdKind.BINARY).to_pylist()
    assert [one.hex() for one in binary] == text
