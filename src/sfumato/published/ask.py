"""`ask`: one verb for every question to a release, with the words of the command.

    sfumato.ask("releases/week-37", zones=["Z00003"], hours="8-10")
    sfumato.ask("releases/week-37", rank="zone", top=5, hours="7-10", weekdays="mon-fri")

Which question it is, is said by one word (`by`, `rank`, `against`, `share_of`, `unusual`, `at`,
`sql`); without any it is a sum. The others say about which places and times.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError
from sfumato.published import asking, usual
from sfumato.published.answers import Answer
from sfumato.published.release import Release, as_release
from sfumato.published.selection import Hours, Moment, Polygon, Weekdays, Zones


def ask(
    release: str | os.PathLike[str] | Release,
    *,
    zones: Zones | None = None,
    polygon: Polygon | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    hours: Hours | None = None,
    weekdays: Weekdays | None = None,
    by: str | None = None,
    below: float | None = None,
    rank: str | None = None,
    top: int | None = None,
    quietest: bool = False,
    window: str | None = None,
    demand: Mapping[str, float] | None = None,
    against: Mapping[str, Any] | None = None,
    share_of: Mapping[str, Any] | None = None,
    unusual: bool = False,
    earlier: Sequence[str | os.PathLike[str] | Release] | None = None,
    at: Moment | None = None,
    sure: float | None = None,
    sql: str | None = None,
    figures: str | os.PathLike[str] | None = None,
) -> Answer:
    """Ask a release: a sum with its interval, or one of the questions that these words name.

    Nothing is read but the release, and nothing is spent.

    Args:
        release: The release or stream, or its folder.
        zones: Ids of places; all, unless these or a polygon are given.
        polygon: An area (WGS84): a shape, GeoJSON, WKT, a file, or "west,south,east,north".
        start: Where the first slot begins, on the release's clock.
        end: Where the last slot ends.
        hours: Hours of the day: "8-10" ends at 10 o'clock.
        weekdays: Days of the week: "mon-fri".
        by: A profile by hour, weekday, day, slot, zone or district.
        below: With `by`: how surely each average is below this number.
        rank: The busiest of these: zone, district, hour, weekday, day or slot.
        top: With `rank`: how many; default: 10.
        quietest: With `rank`: the quietest instead.
        window: With `rank` of slots or hours: runs of slots that last so long, such as "2h".
        demand: With `rank`: how much hours matter, {"7-10": 2, "12-14": 1}.
        against: Compare with a second selection: words that differ from the first, `None` where
            one no longer holds, and `release` for another folder: {"weekdays": "sat-sun"}. With
            `by` there is a row for each group that both have.
        share_of: The share of a selection that holds the first, said likewise: {"zones": None}.
        unusual: Hold every slot against the same weekday and hour at other times.
        earlier: With `unusual`: releases of other weeks.
        at: Who may be there at a moment: "now", or a time.
        sure: With `at`: how surely the number is not exceeded; default: 0.95.
        sql: One SELECT over the released tables instead.
        figures: Also draw the answer (PNG and SVG) into this folder.

    Returns:
        An answer, which prints and shows itself; `to_pandas`, `numbers` and `plot` give the rest.

    Raises:
        InputError: The release has no such place or time; the error says what it has.
        UsageError: Something is not understood, or two questions are asked at once.

    Example:
        >>> print(sfumato.ask("releases/week-37", hours="8-10"))       # doctest: +SKIP
    """
    words: dict[str, Any] = {"zones": zones, "polygon": polygon, "start": start, "end": end}
    words |= {"hours": hours, "weekdays": weekdays}
    given = {key: word for key, word in words.items() if word is not None}
    kinds: dict[str, Any] = {"by": by, "rank": rank, "against": against, "share_of": share_of}
    kinds |= {"unusual": unusual or None, "at": at, "sql": sql}
    asked = [name for name, value in kinds.items() if value is not None]
    further: dict[str, Any] = {
        "below": below,
        "top": top,
        "quietest": quietest or None,
        "window": window,
    }
    further |= {"demand": demand, "earlier": earlier, "sure": sure}
    _check(asked, {name for name, value in further.items() if value is not None}, given)
    found = as_release(release)
    if found.kind == "traces" and sql is None:
        raise UsageError(
            "These are sanitised traces, which have no counts to be summed.",
            remedy="Ask with `sql` about the table traces.",
        )
    answer: Answer
    if by is not None and against is None:
        answer = asking.profile(found, by, below, given)
    elif rank is not None:
        answer = asking.rank(
            found, rank, 10 if top is None else top, quietest, window, demand, given
        )
    elif against is not None:
        second = against.get("release")
        other = None if second is None else as_release(second)
        changed = _changed(given, against)
        if by is None:
            answer = asking.compare(found, given, changed, other)
        elif below is None:
            answer = asking.side_by_side(found, by, given, changed, other)
        else:
            raise UsageError(
                "`below` has no effect beside `against`.", remedy="Leave one of the two out."
            )
    elif share_of is not None:
        if "release" in share_of:
            raise UsageError(
                "A share is of one and the same release.",
                remedy="Compare with the other one: `against`.",
            )
        answer = asking.share(found, given, _changed(given, share_of))
    elif unusual:
        before = [as_release(one) for one in earlier or ()]
        answer = usual.unusual(found, before, given)
    elif at is not None:
        answer = usual.present(found, at, 0.95 if sure is None else sure, given)
    elif sql is not None:
        answer = found.sql(sql)
    else:
        answer = asking.total(found, given)
    if figures is not None:
        from sfumato.reports.answers import write_picture

        write_picture(answer, Path(figures))
    return answer


_BELONGS = {"below": "by", "top": "rank", "quietest": "rank", "window": "rank", "demand": "rank"}
_BELONGS |= {"earlier": "unusual", "sure": "at"}


def _check(asked: Sequence[str], further: set[str], words: Mapping[str, Any]) -> None:
    """One question at a time, and no word that it has no use for."""
    if len(asked) > 1 and asked != ["by", "against"]:
        named = " and ".join(f"`{name}`" for name in asked[:2])
        raise UsageError(f"Two questions at once: {named}.", remedy="Ask one after the other.")
    for name in sorted(further):
        if _BELONGS[name] not in asked:
            raise UsageError(
                f"`{name}` has no effect here.", remedy=f"It belongs to `{_BELONGS[name]}`."
            )
    if asked == ["sql"] and words:
        raise UsageError(
            f"`{next(iter(words))}` has no effect beside SQL.",
            remedy="Say it in the WHERE of the SELECT.",
        )


def _changed(words: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a second selection: those of the first, but for those that change.

    A polygon takes the place of zones, and the other way round; "all" is no restriction.
    """
    said = {{"from": "start", "to": "end"}.get(key, key): word for key, word in change.items()}
    said = {key: None if word == "all" else word for key, word in said.items() if key != "release"}
    both = dict(words)
    for one, other in (("zones", "polygon"), ("polygon", "zones")):
        if one in said:
            both.pop(other, None)
    both |= said
    return {key: word for key, word in both.items() if word is not None}
