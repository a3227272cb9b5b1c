"""The pictures of docs/schemes.md: why `bayes` works, on a small synthetic city.

    python -m benchmarks.scheme_pictures        # about a minute

400,000 people, 260 towers, 198 zones, epsilon 0.3: a fifth of a city of two million, with the same
counts in a zone and hour. Writes docs/images/schemes-*.png.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import matplotlib as mpl
import numpy as np
import platformdirs
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan
from sfumato.density.baselines import Gaussian
from sfumato.density.bayes import Bayes
from sfumato.density.paris import Paris
from sfumato.density.scheme import Density
from sfumato.privacy.wall import Wall
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

mpl.use("Agg")
from matplotlib import pyplot as plt

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
EPSILON, DELTA, SEED = 0.3, 1e-6, 21
Table = NDArray[np.float64]
COLOURS = {"gaussian": "#b0b0b0", "paris": "#c8762b", "bayes": "#1b6ca8"}


def main() -> None:
    cache = Path(os.environ.get("SFUMATO_BENCH_DIR", platformdirs.user_cache_dir("sfumato")))
    folder = cache / f"city-pictures-{SEED}"
    make_city(CityPlan(users=400_000, towers=260, zones=198, area_km2=21.0, seed=SEED), folder)
    stage = open_city(folder)
    facts = stage.facts(EPSILON, DELTA)
    with threadpool_limits(1):
        made: dict[str, Density] = {
            scheme.name: scheme.run(stage.source, Wall.seeded(1), facts)
            for scheme in (Gaussian(), Paris(), Bayes())
        }
    series(stage, made)
    layers(stage, made["bayes"])
    sizes(stage, made)


def series(stage: Stage, made: dict[str, Density]) -> None:
    """One zone over the week: what happened and what three schemes publish of it."""
    zone = stage.example
    hours = np.arange(stage.truth.shape[1])
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.6), sharex=True, sharey=True)
    for axis, (name, density) in zip(axes, made.items(), strict=True):
        if density.lower is not None and density.upper is not None:
            axis.fill_between(
                hours, density.lower[zone], density.upper[zone], color=COLOURS[name], alpha=0.25
            )
        axis.plot(hours, density.values[zone], color=COLOURS[name], lw=1.4, label=name)
        axis.plot(hours, stage.truth[zone], color="black", lw=0.8, label="true")
        axis.legend(loc="upper right", ncols=2, frameon=False)
        axis.set_ylabel("visits")
    axes[-1].set_xlabel(f"hour of the week, zone of median size, epsilon {EPSILON}")
    save(figure, "series")


def layers(stage: Stage, density: Density) -> None:
    """The matrix as measured, what is published, and the truth, beyond the margins."""
    order = np.argsort(-stage.truth.sum(axis=1), kind="stable")
    matrix = density.measurements[-1].estimate()
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    margins = np.maximum(np.abs(values[0] * np.outer(left[:, 0], right[0])), 1e-9)
    panels = {
        "measured: the noisy matrix": matrix / margins - 1,
        "published: after the inference": beyond(density.values.astype(np.float64)),
        "true": beyond(stage.truth),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), sharey=True)
    for axis, (title, table) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(table[order], aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("hour of the week")
    axes[0].set_ylabel("zones, largest first")
    figure.colorbar(image, ax=axes, label="relative to place total x hour total", shrink=0.9)
    save(figure, "layers")


def beyond(table: Table) -> Table:
    """Each cell against the product of its margins."""
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    result: Table = table / np.maximum(product, 1e-9) - 1
    return result


def sizes(stage: Stage, made: dict[str, Density]) -> None:
    """Median relative error by the size of the count."""
    truth = stage.truth
    edges = np.geomspace(5, truth.max(), 13)
    middle = np.sqrt(edges[1:] * edges[:-1])
    figure, axis = plt.subplots(figsize=(7, 4.2))
    for name, density in made.items():
        error = np.abs(density.values - truth) / np.maximum(truth, 1.0)
        found = [
            np.median(error[(truth >= low) & (truth < high)])
            for low, high in itertools.pairwise(edges)
        ]
        axis.plot(middle, found, "o-", color=COLOURS[name], label=name, ms=4)
    axis.plot(middle, 0.6745 / np.sqrt(middle), "k:", lw=1, label="chance of independent visits")
    axis.set(xscale="log", yscale="log", xlabel="true visits in a zone and hour")
    axis.set_ylabel(f"median relative error at epsilon {EPSILON}")
    axis.legend(frameon=False)
    save(figure, "error")


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(IMAGES / f"schemes-{name}.png", dpi=90, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
