"""The public artefact: manifest, statement, and the reader that checks every digest."""
