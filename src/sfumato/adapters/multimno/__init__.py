"""multimno, Eurostat's reference pipeline for mobile network data.

Its data objects are Parquet folders partitioned by day (`year=2023/month=1/day=8`). Read: events
(`user_id`, `timestamp`, `cell_id`), network topology (`cell_id`, `latitude`, `longitude`,
`valid_date_start`, `valid_date_end`), geographic zones (`zone_id`, `level`, `geometry`, by
`dataset_id`) and the INSPIRE grid (`grid_id`). Written: present population per zone (`zone_id`,
`population`, `timestamp`, by `dataset_id`, `level` and day), the object that its k-anonymity
component would have written. docs/adapters/multimno.md has the schemas in full.
"""
