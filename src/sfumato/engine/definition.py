"""What a bounded count is: one SQL text for every question, on a relation `visits`.

`visits` holds `(u, slot, place)`, distinct: user u was seen at the place in the slot. From it

* mass of a slot: k, the number of places in it (`visits`), or 1 (`people`); with public event
  norms q, the sum of q over the places (`visits`) or its mean rounded up (`people`);
* sampling: one place per slot, then at most l slots, by the orders of `sfumato.engine.order`;
* weighting: `sfumato.engine.weights` of the squared norm; each place of the slot then counts w
  (`visits`) or floor(w / k) (`people`).

Windows carry a tie-break column: without one DuckDB rewrites them into a form that is three
times slower. Arithmetic stays below 2^63; sums of squares are exact decimals.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.engine.dialect import Dialect
from sfumato.engine.order import STRIDE, order_sql, seeds_sql
from sfumato.engine.weights import MASS_CEILING, TOTAL_UNITS, WeightRule
from sfumato.model.bound import WEIGHT_UNITS, Counting
from sfumato.model.events import UserEncoding


def _squares(value: str) -> str:
    capped = f"LEAST({value}, {MASS_CEILING})"
    return f"SUM(CAST({capped} * {capped} AS DECIMAL(38, 0)))"


@dataclass(frozen=True, slots=True)
class Definition:
    """The questions as SQL. Results are long: the keys and `n`, non-zero entries only."""

    user: UserEncoding
    dialect: Dialect

    def sampled_rows(self, slots: int, key: bytes) -> str:
        """The visits that count: `(u, slot, place)`, one per slot, at most `slots` a user."""
        multipliers = ("a1", "b1", "a2", "b2")
        people = seeds_sql(
            key, self.user, "(SELECT DISTINCT u FROM visits) AS p", ("u",), self.dialect
        )
        rows = (
            f"(SELECT v.u, v.slot, v.place, {', '.join('s.' + m for m in multipliers)} "
            f"FROM visits AS v JOIN ({people}) AS s ON v.u = s.u) AS r"
        )
        carried = ("u", "slot", "place", "a2", "b2")
        places = order_sql("place", f"{STRIDE} * (CAST(slot AS BIGINT) + 1)", 1, rows, carried)
        one = (
            f"SELECT u, slot, place, a2, b2 FROM (SELECT u, slot, place, a2, b2, ROW_NUMBER() "
            f"OVER (PARTITION BY u, slot ORDER BY turn, place) AS nth FROM ({places}) AS t1) "
            f"AS n1 WHERE nth = 1"
        )
        chosen = order_sql("slot", "0", 2, f"({one}) AS c", ("u", "slot", "place"))
        return (
            f"SELECT u, slot, place FROM (SELECT u, slot, place, ROW_NUMBER() OVER "
            f"(PARTITION BY u ORDER BY turn, slot) AS nth FROM ({chosen}) AS t2) AS n2 "
            f"WHERE nth <= {slots}"
        )

    def sampled(self, slots: int, key: bytes) -> str:
        """Place x slot counts of the sample."""
        return (
            f"WITH kept AS ({self.sampled_rows(slots, key)}) "
            "SELECT place, slot, COUNT(*) AS n FROM kept GROUP BY place, slot"
        )

    def _masses(self, counting: Counting, with_norms: bool) -> str:
        """`(u, slot, k, m)`: places in the slot and the mass that enters the norm."""
        people = counting is Counting.PEOPLE
        if not with_norms:
            mass = "1" if people else "COUNT(*)"
            return f"SELECT u, slot, COUNT(*) AS k, {mass} AS m FROM visits GROUP BY u, slot"
        total = "CAST(SUM(q.q) AS BIGINT)"
        mass = self.dialect.divide.format(f"({total} + COUNT(*) - 1)", "COUNT(*)")
        return (
            f"SELECT v.u, v.slot, COUNT(*) AS k, {mass if people else total} AS m "
            "FROM visits AS v JOIN event_norms AS q ON v.place = q.place AND v.slot = q.slot "
            "GROUP BY v.u, v.slot"
        )

    def weighted(self, rule: WeightRule, counting: Counting, with_norms: bool) -> str:
        """Place x slot, each visit counting its user's weight."""
        share = self.dialect.divide.format("x.w", "m.k") if counting is Counting.PEOPLE else "x.w"
        return (
            f"WITH masses AS ({self._masses(counting, with_norms)}), weights AS ("
            f"SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('m')} AS n2 "
            f"FROM masses GROUP BY u) AS s) "
            f"SELECT v.place, v.slot, SUM({share}) AS n FROM visits AS v "
            "JOIN masses AS m ON v.u = m.u AND v.slot = m.slot JOIN weights AS x ON v.u = x.u "
            "GROUP BY v.place, v.slot"
        )

    def place_totals(self, rule: WeightRule, counting: Counting) -> str:
        """Per place, the users' totals scaled to the limit. The rule's units are TOTAL_UNITS
        for `people` and 1 for `visits`."""
        people = counting is Counting.PEOPLE
        unit = TOTAL_UNITS if people else 1
        each = self.dialect.divide.format(TOTAL_UNITS, "m.k") if people else "1"
        scaled = self.dialect.divide.format("(x.w * t.s)", unit)
        return (
            "WITH masses AS (SELECT u, slot, COUNT(*) AS k FROM visits GROUP BY u, slot), "
            f"totals AS (SELECT v.u, v.place, CAST(SUM({each}) AS BIGINT) AS s FROM visits AS v "
            "JOIN masses AS m ON v.u = m.u AND v.slot = m.slot GROUP BY v.u, v.place), "
            f"weights AS (SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('s')} AS n2 "
            "FROM totals GROUP BY u) AS s) "
            f"SELECT t.place, SUM({scaled}) AS n FROM totals AS t "
            "JOIN weights AS x ON t.u = x.u GROUP BY t.place"
        )

    def slot_totals(self, rule: WeightRule, counting: Counting) -> str:
        """Per slot, the users' mass scaled to the limit."""
        return (
            f"WITH masses AS ({self._masses(counting, False)}), weights AS ("
            f"SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('m')} AS n2 "
            "FROM masses GROUP BY u) AS s) "
            "SELECT m.slot, SUM(x.w * m.m) AS n FROM masses AS m JOIN weights AS x ON m.u = x.u "
            "GROUP BY m.slot"
        )

    def capped_total(self, cap: int, counting: Counting) -> str:
        """One number: the sum over users of min(total mass, cap)."""
        each = "COUNT(DISTINCT slot)" if counting is Counting.PEOPLE else "COUNT(*)"
        return (
            f"SELECT COALESCE(SUM(LEAST(total, {cap})), 0) AS n FROM "
            f"(SELECT u, {each} AS total FROM visits GROUP BY u) AS s"
        )

    def exact(self, counting: Counting) -> str:
        """Place x slot without any bound."""
        if counting is Counting.VISITS:
            return "SELECT place, slot, COUNT(*) AS n FROM visits GROUP BY place, slot"
        share = self.dialect.divide.format(WEIGHT_UNITS, "m.k")
        return (
            "WITH masses AS (SELECT u, slot, COUNT(*) AS k FROM visits GROUP BY u, slot) "
            f"SELECT v.place, v.slot, SUM({share}) AS n FROM visits AS v "
            "JOIN masses AS m ON v.u = m.u AND v.slot = m.slot GROUP BY v.place, v.slot"
        )
