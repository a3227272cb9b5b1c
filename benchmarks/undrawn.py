"""`sfumato release` without the forecast on made-up people and with 2 pairs of draws instead of 32.

What a release cost before there were forecasts and drawn intervals, for a comparison with then; its
intervals are worth nothing. `benchmarks.waiting` runs it in a process of its own, so it imports no
more than the command does.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from sfumato.cli import main

    command = main.app

    def undrawn(**given: str) -> None:
        """The command, entered as it always is, with less to do."""
        from sfumato.density import publish
        from sfumato.density.bayes import ground, inference, memory

        for module in (ground, inference, memory):
            vars(module)["PAIRS"] = 2
        vars(publish)["checked_fitness"] = lambda *_: None
        command(**given)

    vars(main)["app"] = undrawn
    sys.argv[0] = "sfumato"
    main.program()
