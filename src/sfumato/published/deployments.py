"""An entry of the registry of deployments of differential privacy (OpenDP), as YAML.

The entry is of tier 3, the most complete, and a draft: what only the publisher can say stands in
its notes. All of it comes from the manifest and the holder's words, and its sentences are those of
the privacy statement.

YAML is written here, with no library: a nested mapping of texts and numbers, whose scalars are
JSON's, or blocks of lines.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.model.rounding import rounded_up
from sfumato.published.catalogue import Described, slug
from sfumato.published.statement import adds_up, by_rules_words, noise, odds

_UNITS = {
    "user-period": "User-level",
    "user-day": "User-day-level",
    "w-event": "Any window of successive time slots of one user",
    "event": "Event-level",
    "trajectory": "Trajectory-level",
}
_DRAFT = (
    "Drafted by sfumato from the manifest of the release. What only the publisher can say is to be "
    "completed: intended_use, and under actors who may see what."
)


def registry(found: Described) -> dict[str, Any]:
    """The registry's entry; its words are the statement's."""
    manifest, privacy = found.manifest, found.manifest.privacy
    stream, kind = manifest.kind == "stream", privacy.unit.partition(":")[0]
    total = privacy.cumulative
    many = stream or (total.releases or total.lifetime.releases) > 1
    epsilon = float(rounded_up(privacy.epsilon, 6))  # a loss is not rounded down
    parameters: dict[str, Any] = {"epsilon": epsilon, "delta": privacy.delta}
    parameters |= {} if privacy.rho is None else {"rho": privacy.rho}
    year = manifest.release.reserved_at[:4]
    return {
        "url_slug": slug(f"{found.title} {found.publisher} {year}"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": found.title,
                "data_curators": [found.publisher],
                "intended_use": "Estimates of how many people are where and when, for planning, "
                "statistics and research.",
                "data_product_type": "Summary statistics",
                "data_product_region": _region(found),
                "description": found.summary,
                "publication_date": manifest.release.reserved_at[:10],
            },
            "dp_variant": {
                "variant_name": _variant(privacy.method, privacy.delta),
                "data_domain": f"Records of where people were and when ({manifest.release.dataset})"
                f", counted at {manifest.counted.count} {manifest.counted.kind}.",
                "unprotected_quantities": _listed(
                    "No number is published without noise. Not hidden or covered:",
                    manifest.not_covered,
                ),
            },
            "privacy_loss": {
                "privacy_unit": _UNITS.get(kind, privacy.unit),
                "privacy_unit_details": f"{privacy.unit}: {privacy.neighbours}. "
                f"{adds_up(privacy.unit)}".strip(),
                "privacy_parameters": parameters,
                "privacy_parameters_details": "One unit's data change the probability of any "
                f"conclusion by at most {odds(privacy.epsilon)}, plus delta. "
                f"Accounting: {privacy.method}.",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": f"{found.publisher} holds the records and publishes; everybody may read "
                "what is published.",
                "release_type": "Many releases" if many else "One release",
                "release_type_details": "What later releases about the same people add up to is "
                f"held by a ledger ({'; '.join(total.caps) or 'no cap stated'}). "
                f"{by_rules_words(total.by_rules)}".rstrip(),
                "data_source_type": "Dynamic" if stream else "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": f"Scheme {manifest.scheme.name}: everything after the noise "
                "reads noisy numbers and public facts alone.",
                "composition": _listed(
                    f"Everything that was measured adds up to the loss stated ({privacy.method}):",
                    [f"{m.label}: {m.event.get('kind', 'event')}" for m in privacy.measurements],
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"{privacy.bound} Settings were chosen "
                "from public facts, before the records were read.",
                "mechanisms": f"{noise(manifest)}. Noise is drawn as whole numbers by exact "
                "integer arithmetic, so no floating-point error reaches it. Made with sfumato "
                f"{manifest.software.get('sfumato', '')}.",
                "justification": _listed("What readers are told first:", manifest.caveats)
                if manifest.caveats
                else "README.txt and manifest.json say every setting.",
            },
            "administrative": {"notes": _DRAFT, "registry_authors": [found.publisher]},
        },
    }


def _variant(method: str, delta: float) -> str:
    if method == "zcdp":
        return "Zero-concentrated DP"
    return "Pure DP" if method == "pure" and delta == 0 else "Approximate DP"


def _region(found: Described) -> str:
    clock = f"local time of {found.manifest.grid.tz}"
    if found.box is None:
        return f"Places with the {clock}."
    west, south, east, north = found.box
    return f"Latitude {south:.3f} to {north:.3f}, longitude {west:.3f} to {east:.3f}; {clock}."


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, "", *(f"- {line}" for line in lines)])


def yaml_text(data: Mapping[str, Any], depth: int = 0) -> str:
    """Nested mappings, lists of texts, numbers and texts as YAML, which JSON's scalars are.

    Example:
        >>> print(yaml_text({"tier": 3, "basic": {"name": "A: b", "curators": ["C"]}}), end="")
        tier: 3
        basic:
          name: "A: b"
          curators:
            - "C"
    """
    space, made = "  " * depth, []
    for key, value in data.items():
        if isinstance(value, Mapping):
            made.append(f"{space}{key}:\n{yaml_text(value, depth + 1)}")
        elif isinstance(value, list):
            made.append(f"{space}{key}:\n" + "".join(f"{space}  - {_scalar(v)}\n" for v in value))
        elif isinstance(value, str) and (len(value) > 72 or "\n" in value) and _plain(value):
            lines = "\n".join(
                textwrap.fill(line, 92, subsequent_indent="  " * line.startswith("- "))
                for line in value.strip().split("\n")
            )
            made.append(f"{space}{key}: |-\n{textwrap.indent(lines, space + '  ')}\n")
        else:
            made.append(f"{space}{key}: {_scalar(value)}\n")
    return "".join(made)


def _plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def _scalar(value: Any) -> str:
    if isinstance(value, float):  # YAML 1.1 takes 1e-06 for a text: a number has a point
        mantissa, exponent, power = repr(value).partition("e")
        return mantissa + ".0" * ("." not in mantissa) + exponent + power
    if not isinstance(value, str):
        return json.dumps(value)
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
