"""In which order the batches of an epoch come, and what a batch costs the device that computes it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final, Sequence

from packhouse.base.arguments import Choice, Uint32, names_arguments, whole_number
from packhouse.v1 import loader_pb2


class CostForm(Choice):
    """What of a batch a term of its cost counts.

    ROWS of the component, without padding: convolutions cost as edges. SQUARED_ROWS: attention over
    the whole batch. SUM_OF_SQUARES, over the batch's graphs: attention within graphs. BATCH: 1,
    whatever the batch has.
    """

    ROWS = 1
    SQUARED_ROWS = 2
    SUM_OF_SQUARES = 3
    BATCH = 4


@names_arguments
@dataclasses.dataclass(frozen=True)
class CostTerm:
    """`weight` for each that `form` counts of `component`; none with BATCH.

    The weight is above 0, in any unit that all terms share.
    """

    component: str = ""
    form: CostForm | str = CostForm.ROWS
    weight: float = 1.0

    def to_proto(self) -> Any:
        """The `packhouse.v1.CostTerm`. Raises ValueError for a weight that is not above 0."""
        if not self.weight > 0:
            raise ValueError(f"weight: {self.weight}, must be above 0")
        return loader_pb2.CostTerm(
            component=self.component,
            form=int(CostForm.of(self.form, "form")),
            weight=self.weight,
        )


@names_arguments
@dataclasses.dataclass(frozen=True)
class CostBalanced:
    """Batches of like cost share a step, so that its ranks wait less for the dearest of them.

        order=CostBalanced("edges")                       # convolutions
        order=CostBalanced("sum(nodes^2) + 12*nodes")     # attention within graphs, and the rest

    Steps come in random order, and each batch is equally likely in each step and at each rank, as
    in a shuffle. `cost` is a sum of terms, as text: `edges`, `0.5*edges`, `nodes^2` (of all the
    batch's nodes), `sum(nodes^2)` (over its graphs) or `7` (of any batch); or of CostTerms. Empty:
    what the device profile says of the batch's rows, padding included, or with `measured_as` what
    was measured when the epoch was opened.

    `num_ranks` batches share a step; 0: as many as the loader has ranks. Dynamic workers must say
    it. Several rank groups have their own numbers.
    """

    cost: str | Sequence[CostTerm] = ()
    num_ranks: Uint32 = 0

    def to_proto(self) -> Any:
        """The `packhouse.v1.BatchOrder`. Raises ValueError for a text that is no cost."""
        terms = terms_of(self.cost) if isinstance(self.cost, str) else self.cost
        return loader_pb2.BatchOrder(
            cost_balanced=loader_pb2.CostBalanced(
                terms=[term.to_proto() for term in terms],
                num_ranks=whole_number(self.num_ranks, "num_ranks"),
            )
        )


@names_arguments
@dataclasses.dataclass(frozen=True)
class ByScore:
    """A curriculum: graphs with low scores come early, or with high ones if it is `descending`.

        order=ByScore("difficulty", buckets=10)   # a tensor of one number for each graph
        order=ByScore(component="bonds")          # or a graph's rows of a component

    Batches are sorted by the mean score of their graphs and cut into so many buckets; 0: each batch
    is one. Graphs of one size then change places, so that those with lower scores are in earlier
    buckets. Within a bucket all is shuffled. Batches are of the sizes that they have in a shuffle:
    a batch has large and small graphs, so an order by what goes with their size is weak. With
    `segments` or `samples`, each segment or window has buckets of its own; sub-graphs have no tensor
    to be a score.
    """

    tensor: str = ""
    component: str = ""
    descending: bool = False
    buckets: Uint32 = 0

    def to_proto(self) -> Any:
        """The `packhouse.v1.BatchOrder`. Raises ValueError unless there is one name."""
        if bool(self.tensor) == bool(self.component):
            raise ValueError(
                f"order: tensor {self.tensor!r} and component {self.component!r}, must be one of them"
            )
        return loader_pb2.BatchOrder(
            by_score=loader_pb2.ByScore(
                tensor=self.tensor or None,
                component=self.component or None,
                descending=self.descending,
                num_buckets=whole_number(self.buckets, "buckets"),
            )
        )


# Names have neither spaces nor asterisks nor parentheses; ^ before a digit is a power.
_NAME: Final = r"(?:(?!\^[0-9])[^\s*()])+"
_TERM: Final = re.compile(
    r"(?:(?P<weight>[^\s*()]+)\s*\*\s*)?"
    rf"(?:sum\((?P<sum>{_NAME})\^2\)|(?P<squared>{_NAME})\^2|(?P<rows>{_NAME}))"
)


def terms_of(cost: str) -> list[CostTerm]:
    """The terms of a cost that is given as text. Raises ValueError naming a term that is none."""
    return [_term_of(text, cost) for text in re.split(r"\s+\+\s+", cost.strip())]


def _term_of(text: str, cost: str) -> CostTerm:
    found = _TERM.fullmatch(text)
    weight = None if found is None or found["weight"] is None else _number(found["weight"])
    if found is not None and found["weight"] is None and found["rows"]:
        of_batch = _number(found["rows"])
        if of_batch is not None:
            return CostTerm("", CostForm.BATCH, of_batch)
    if found is None or (found["weight"] is not None and weight is None):
        raise ValueError(
            f"cost: {text!r} in {cost!r} is no term: edges, 0.5*edges, nodes^2, sum(nodes^2) or 7, "
            "with ' + ' between terms"
        )
    weight = 1.0 if weight is None else weight
    if found["sum"]:
        return CostTerm(found["sum"], CostForm.SUM_OF_SQUARES, weight)
    if found["squared"]:
        return CostTerm(found["squared"], CostForm.SQUARED_ROWS, weight)
    return CostTerm(found["rows"], CostForm.ROWS, weight)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
