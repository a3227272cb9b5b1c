"""Syntactic protection: rules about the output. NOT differential privacy, and never called private.

What leaves here is exact. It is checked against stated attacks and against no other: each room says
what it helps against and which attack breaks it. What must hold against everybody leaves by the
wall (`sfumato.privacy`).
"""

from sfumato_lab.syntactic.auditor import Auditor, Rule, Universe, Visits, Why

__all__ = ["Auditor", "Rule", "Universe", "Visits", "Why"]
