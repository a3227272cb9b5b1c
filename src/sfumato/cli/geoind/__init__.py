"""The study behind `sfumato reproduce geoind`: sanitised traces in two uses and one attack."""
