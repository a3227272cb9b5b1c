"""What the laboratory adds to `sfumato`; this module imports nothing (`sfumato.model.extensions`)."""

OFFERS: tuple[tuple[str, str, str, str], ...] = ()
"""Kind, name, help, and where it is."""
