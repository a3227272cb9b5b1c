"""A synthetic city and its people: for the demo, the tests and the benchmarks, and for
trying everything before real records are touched.

    from pathlib import Path
    from sfumato.city import CityPlan, build_city, generate_events, write_city

    plan = CityPlan(users=2_000, towers=60, zones=40, seed=7)
    write_city(plan, Path("toy"))            # events.parquet, towers.csv, zones.geojson, city.json

    city = build_city(plan)                  # city.towers, city.zones: Places in WGS84
    for batch in generate_events(city):      # pyarrow.RecordBatch: user_id, timestamp, tower
        ...

The same plan gives the same bytes, whatever the machine does besides. The crowd of
Chen et al. (people x days x slots on a grid) is in `sfumato.city.crowd`.
Everything here is made up, so nothing here is private.
"""

from sfumato.city.layout import City, build_city
from sfumato.city.people import generate_events
from sfumato.city.plan import CityPlan, Fixes, Geometry, IdKind, Match
from sfumato.city.write import write_city

__all__ = [
    "City",
    "CityPlan",
    "Fixes",
    "Geometry",
    "IdKind",
    "Match",
    "build_city",
    "generate_events",
    "write_city",
]
