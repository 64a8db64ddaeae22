"""Sub-graphs around seeds of one large graph: what is drawn.

    from packhouse.sampling import SamplingSpecBuilder, SourceSets

    sets = SourceSets.of({"cites": ("paper", "paper"), "written": ("paper", "author")})
    papers = SamplingSpecBuilder(sets, "random_uniform").seed("paper")
    spec = papers.join([papers.sample(8, "cites")]).sample(4, "written").build()

`spec.to_text()` is what TF-GNN's tools and the server read.
"""

from __future__ import annotations

from packhouse.large.sampling import (
    EdgeEnds,
    LinkSeeds,
    SamplingOp,
    SamplingSpec,
    SamplingSpecBuilder,
    SamplingStep,
    SamplingStrategy,
    SourceSets,
    make_sampling_spec_tree,
    negative_links,
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
