"""The whole gate: every scheme, method, kind and unit that is registered, with every person.

Each way to run a verb meets every person, in three of the formats and with both kinds of answers;
the next one meets them in others, so that all formats are tried with all verbs.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from tests.replay import verbs
from tests.replay.gate import Case, Gate

pytestmark = [pytest.mark.privacy, pytest.mark.slow]


def registered() -> dict[str, list[tuple[int, Case]]]:
    """All cases under the verb and what it is run with, numbered."""
    groups: dict[str, list[tuple[int, Case]]] = defaultdict(list)
    number = 0
    for cases in verbs.VERBS.values():
        for case in cases():
            number += 1
            groups[" ".join(case.name.split()[:2])].append((number, case))
    return groups


GROUPS = registered()


@pytest.mark.parametrize("group", GROUPS)
def test_nobody_who_joins_is_seen(group: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    leaks: dict[tuple[str, ...], list[str]] = {}
    codes = set()
    for number, case in GROUPS[group]:
        for k, person in enumerate(case.persons):
            format = case.formats[(number + k % 3) % len(case.formats)]
            true_looking = (number + k % 3) % 2 == 0
            lines = gate.leaks(case, person, format, true_looking)
            codes.add(gate.base(case, format, true_looking).published.code)
            if lines:
                leaks[case.name, person, format, "public model" * true_looking] = lines
    assert leaks == {}
    # What a scheme cannot have is wrong usage, whoever is there; and every one publishes something
    # but the one that measures nothing.
    assert codes == {2} if group == "stream zeros" else {0} <= codes <= {0, 2}
