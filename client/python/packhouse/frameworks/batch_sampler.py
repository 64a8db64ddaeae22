"""Which graphs share a batch, if the graphs themselves stay in the client. See `BatchSampler`."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any, Final, Iterator, Mapping, NamedTuple, Sequence

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import names_init_arguments
from packhouse.base.errors import PackhouseError
from packhouse.data.batch import Padding
from packhouse.data.graphs import GraphTable, as_sizes
from packhouse.data.schema import GraphSchema
from packhouse.planning.pack_options import OversizePolicy, PackOptions, Rejection, warn_of_oversize

_PROGRAM: Final = """
import sys
sys.path[:] = {path!r}
from packhouse.frameworks.batch_sampler import serve
serve()
"""


class RepeatedEpochWarning(UserWarning):
    """An epoch is given a second time, because nobody has set the next one."""


class _Question(NamedTuple):
    """An epoch's graphs in the order in which they are sent, and how they are packed."""

    address: str
    numbers: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint32]
    components: tuple[str, ...]
    options: PackOptions
    timeout: float


@names_init_arguments
class BatchSampler:
    """Lists of graph numbers, each a full batch: what torch's DataLoader takes as `batch_sampler`.

        sampler = BatchSampler(address, sizes, {"nodes": 512, "edges": 1152, "graphs": 32}, seed=7)
        for epoch in range(10):
            sampler.set_epoch(epoch)
            for data in DataLoader(dataset, batch_sampler=sampler, num_workers=2): train(data)

    Only sizes are sent, and numbers come back. The data set may be any that gives a graph for its
    number; the framework makes the batches of the graphs. Every graph is in one batch of an epoch.
    The batches depend on the arguments, the seed and the epoch alone, so that an epoch goes on
    after a restart with `set_epoch(epoch, first_batch)`. Limits are of real rows; for a batch that
    is padded afterwards by the framework, `padding=Padding.GRAPH` keeps its padding graph free.

    A pass after one that has ended gives the same batches in the same order again, unless `set_epoch`
    came between; shuffled, or without its first batches, it is told by a RepeatedEpochWarning.

    A worker process of a data loader may be forked while this object is in use: a process of its
    own asks the server. Takes some tenths of a second an epoch, when `len` or iterating first asks.
    Not thread-safe.
    """

    def __init__(
        self,
        address: str,
        sizes: npt.ArrayLike,
        limits: Mapping[str, int],
        *,
        components: Sequence[str] = ("nodes", "edges"),
        shuffle: bool = True,
        seed: int = 0,
        padding: Padding = Padding.NONE,
        oversize: OversizePolicy = OversizePolicy.ERROR,
        look_ahead: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        drop_last: bool = False,
        timeout: float = 60.0,
    ) -> None:
        """`sizes` is [graphs, components].

        With several ranks each gets every `num_ranks`-th batch, and all get the same number of
        batches: for that, some batches come twice in an epoch, or with `drop_last` the last ones do
        not come. `timeout` bounds the connecting, in seconds; the rest is as for `PackOptions`.
        Raises ValueError.
        """
        table = as_sizes(sizes, len(components))
        if not 0 <= rank < num_ranks:
            raise ValueError(f"rank {rank} of {num_ranks} ranks")
        self._address = address
        self._sizes = table
        self._components = tuple(components)
        self._options = PackOptions(dict(limits), padding, look_ahead=look_ahead, oversize=oversize)
        self._shuffle = shuffle
        self._seed = seed
        self._rank = rank
        self._num_ranks = num_ranks
        self._drop_last = drop_last
        self._timeout = timeout
        self._first_batch = 0
        self._epoch = 0
        # Whether a pass has given all of it.
        self._has_ended = False
        self._planned: tuple[int, list[list[int]]] | None = None

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int, first_batch: int = 0) -> None:
        """Iterating gives that epoch from now on, without the first `first_batch` batches of this
        rank.
        """
        self._epoch = epoch
        self._first_batch = first_batch
        self._has_ended = False

    def __len__(self) -> int:
        """Batches that iterating gives. Asks the server. Raises PackhouseError."""
        return max(0, len(self._batches()) - self._first_batch)

    def __iter__(self) -> Iterator[list[int]]:
        """Asks the server first. Raises PackhouseError: UNAVAILABLE; OUT_OF_RANGE naming a graph
        beyond the limits, unless `oversize` says REJECT, which warns with OversizeWarning."""
        if self._has_ended and (self._shuffle or self._first_batch):
            warnings.warn(
                f"epoch {self._epoch} is given once more, in the same batches and order"
                + (f", without its first {self._first_batch}" if self._first_batch else "")
                + ": call set_epoch before each pass",
                RepeatedEpochWarning,
                stacklevel=2,
            )
        return self._pass(self._epoch, self._batches()[self._first_batch :])

    def _pass(self, epoch: int, batches: list[list[int]]) -> Iterator[list[int]]:
        yield from batches
        if epoch == self._epoch:
            self._has_ended = True

    def _batches(self) -> list[list[int]]:
        """Of this epoch and rank."""
        if self._planned is None or self._planned[0] != self._epoch:
            order = np.arange(len(self._sizes))
            if self._shuffle:
                order = np.random.default_rng((self._seed, self._epoch)).permutation(order)
            batches, rejections = _ask(
                _Question(
                    self._address,
                    order.astype(np.uint64),
                    self._sizes[order],
                    self._components,
                    self._options,
                    self._timeout,
                )
            )
            if rejections:
                warn_of_oversize(f"epoch {self._epoch}", len(rejections), rejections[0], 3)
            self._planned = (self._epoch, self._share(batches))
        return self._planned[1]

    def _share(self, batches: list[list[int]]) -> list[list[int]]:
        left = len(batches) % self._num_ranks
        if left and self._drop_last:
            batches = batches[: len(batches) - left]
        elif left:
            # As often as need be: there may be fewer batches than ranks.
            missing = self._num_ranks - left
            batches = batches + [batches[number % len(batches)] for number in range(missing)]
        return batches[self._rank :: self._num_ranks]


def _ask(question: _Question) -> tuple[list[list[int]], list[Rejection]]:
    """The numbers of each batch's graphs, and the graphs that are left out. Raises PackhouseError.
    """
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
        input=pickle.dumps(question),
        stdout=subprocess.PIPE,
        check=False,
    )
    if ran.returncode:
        raise PackhouseError(
            grpc.StatusCode.UNKNOWN, f"the process that packs ended with status {ran.returncode}"
        )
    kind, *content = pickle.loads(ran.stdout)
    if kind == "failed":
        code, words = content
        raise PackhouseError(grpc.StatusCode[code], words)
    batches, rejections = content
    return batches, rejections


def serve() -> None:
    """The process: packs what comes from its standard input, and answers."""
    # Imported here, because a process that forks should not even import it.
    from packhouse.client.facade import Client

    question: Any = pickle.load(sys.stdin.buffer)
    try:
        with Client(question.address, connect_timeout=question.timeout) as client:
            schema = GraphSchema(question.components)
            table = GraphTable(schema, question.sizes, graph_ids=question.numbers)
            rejections: list[Rejection] = []
            rejects = question.options.oversize is OversizePolicy.REJECT
            stream = client.pack([table], question.options, rejections.extend if rejects else None)
            batches = [batch.graph_ids.tolist() for batch in stream]
            answer: Any = ("ok", batches, rejections)
    except PackhouseError as error:
        answer = ("failed", error.code.name, error.message)
    pickle.dump(answer, sys.stdout.buffer)
