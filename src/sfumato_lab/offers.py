"""What the laboratory adds to `sfumato` (`sfumato.model.extensions`). This imports nothing."""

OFFERS: tuple[tuple[str, str, str, str], ...] = (
    (
        "attack",
        "anonymised",
        "What breaks suppression, generalisation and groups.",
        "sfumato_lab.cli.attack:anonymised",
    ),
    (
        "attack",
        "queries",
        "Desks that answer counting questions, on made-up people.",
        "sfumato_lab.cli.attack:queries",
    ),
    (
        "command",
        "anonymise",
        "k-anonymity and other rules. Not private.",
        "sfumato_lab.cli.anonymise:app",
    ),
    ("command", "reproduce", "Repeat published studies.", "sfumato_lab.cli.reproduce:app"),
    (
        "question session",
        "multiplicative-weights",
        "Private multiplicative weights.",
        "sfumato_lab.queries.sitting:open_sitting",
    ),
    (
        "questions together",
        "mwem",
        "A table fitted to the questions it answers worst.",
        "sfumato_lab.queries.mwem:together",
    ),
    (
        "synthesis method",
        "where",
        "To compare weeks with: DP-WHERE, homes and commutes by a law of their median.",
        "sfumato_lab.synthesis.where:Where",
    ),
    (
        "synthesis method",
        "adatrace",
        "To compare fit with: what AdaTrace measures, corrected.",
        "sfumato_lab.synthesis.adatrace:AdaTrace",
    ),
    (
        "synthesis method",
        "ngrams",
        "To compare fit with: variable-length n-grams of cells.",
        "sfumato_lab.synthesis.trees:NGrams",
    ),
    (
        "synthesis method",
        "prefix",
        "To compare fit with: a tree of prefixes.",
        "sfumato_lab.synthesis.trees:Prefix",
    ),
    (
        "synthesis method",
        "dpt",
        "To compare fit with: moves on several grids at once (DPT).",
        "sfumato_lab.synthesis.dpt:Dpt",
    ),
    (
        "trace classifier",
        "recurrent",
        "A recurrent network that recognises people.",
        "sfumato_lab.attacks.traces.classifier:classify",
    ),
)
"""Kind, name, help, and where it is."""
