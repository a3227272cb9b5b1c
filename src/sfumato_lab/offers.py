"""What the laboratory adds to `sfumato` (`sfumato.model.extensions`). This imports nothing."""

OFFERS: tuple[tuple[str, str, str, str], ...] = (
    (
        *("command", "anonymise", "k-anonymity and other rules. Not private."),
        "sfumato_lab.cli.anonymise:app",
    ),
    (
        *("attack", "anonymised", "What breaks suppression, generalisation and groups."),
        "sfumato_lab.cli.attack:anonymised",
    ),
    (
        *("attack", "queries", "Desks that answer counting questions, on made-up people."),
        "sfumato_lab.cli.attack:queries",
    ),
    ("command", "reproduce", "Repeat published studies.", "sfumato_lab.cli.reproduce:app"),
)
"""Kind, name, help, and where it is."""
