"""What the laboratory adds to `sfumato` (`sfumato.model.extensions`). This imports nothing."""

OFFERS: tuple[tuple[str, str, str, str], ...] = (
    ("command", "reproduce", "Repeat published studies.", "sfumato_lab.cli.reproduce:app"),
)
"""Kind, name, help, and where it is."""
