"""Manifests for tests of the transaction."""

from tests.statements import manifest, manifest_of

__all__ = ["manifest", "manifest_of"]
