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
    (
        "synthesis method",
        "where",
        "People: homes, commutes by a law of their median, works, hours (DP-WHERE).",
        "sfumato_lab.synthesis.where:Where",
    ),
    (
        "synthesis method",
        "adatrace",
        "Trips: the ingredients of AdaTrace.",
        "sfumato_lab.synthesis.adatrace:AdaTrace",
    ),
    (
        "synthesis method",
        "ngrams",
        "Trips: variable-length n-grams of cells.",
        "sfumato_lab.synthesis.trees:NGrams",
    ),
    (
        "synthesis method",
        "prefix",
        "Trips: a tree of prefixes.",
        "sfumato_lab.synthesis.trees:Prefix",
    ),
    (
        "synthesis method",
        "dpt",
        "Trips: moves on several grids at once (DPT).",
        "sfumato_lab.synthesis.dpt:Dpt",
    ),
)
"""Kind, name, help, and where it is."""
