"""The urban crowd of Chen et al.: people on a grid of cells for several days.

from sfumato.city import crowd

made = crowd.generate(crowd.CrowdPlan(people=1_000, days=8))
made.cells      # int32, people x days x slots: index of a cell
made.centres    # cells x 2: longitude and latitude

crowd.write_crowd(crowd.CrowdPlan(), Path("crowd"))    # events.parquet and the rest
"""

from sfumato.city.crowd.plan import STAY_SHARES, CrowdPlan
from sfumato.city.crowd.walkers import Crowd, count_stays, generate
from sfumato.city.crowd.write import crowd_events, write_crowd

__all__ = [
    "STAY_SHARES",
    "Crowd",
    "CrowdPlan",
    "count_stays",
    "crowd_events",
    "generate",
    "write_crowd",
]
