"""Sub-graphs around seeds of one large graph: what is drawn.

    from packhouse.sampling import SamplingSpecBuilder, SourceSets

    sets = SourceSets.of({"cites": ("paper", "paper"), "written": ("paper", "author")})
    papers = SamplingSpecBuilder(sets, "random_uniform").seed("paper")
    spec = papers.join([papers.sample(8, "cites")]).sample(4, "written").build()

`spec.to_text()` is what TF-GNN's tools and the server read.
"""

from __future__ import annotations

from packhouse.large.negative_links import LinkSeeds, negative_links
from packhouse.large.sampling_spec import (
    EdgeEnds,
    SamplingOp,
    SamplingSpec,
    SamplingSpecBuilder,
    SamplingStep,
    SamplingStrategy,
    SourceSets,
    make_sampling_spec_tree,
)

__all__ = [
    "EdgeEnds",
    "LinkSeeds",
    "SamplingOp",
    "SamplingSpec",
    "SamplingSpecBuilder",
    "SamplingStep",
    "SamplingStrategy",
    "SourceSets",
    "make_sampling_spec_tree",
    "negative_links",
]
