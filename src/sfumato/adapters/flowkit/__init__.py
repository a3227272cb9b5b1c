"""FlowKit, Flowminder's toolkit for call detail records in PostgreSQL (FlowDB).

Read, from FlowDB itself or from an export of its tables to Parquet: events (`events.calls`, `sms`,
`mds`, `topups`: `msisdn`, `datetime`, `location_id`), antennas (`infrastructure.cells`, else
`sites`: `id`, `geom_point`, dates of service) and admin regions (`geography.admin3`, else
`geography.geoms`). Written: its aggregates (`pcod`, `date`, `hour`, `value`) as CSV, and as GeoJSON
for each slot. docs/adapters/flowkit.md has the schemas in full.
"""
