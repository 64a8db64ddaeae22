"""The common part of all pictures: figures of Matplotlib, axes, colours, files."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from typing import TYPE_CHECKING, Any, Final, Iterator, Sequence

from packhouse.command.failures import Failure, Misuse, signals_raised
from packhouse.command.output import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ENDINGS: Final = (".svg", ".pdf", ".png")
# For what the reader looks for, such as limits and the recommendation.
MARK: Final = "#d1345b"
# For bars and single lines; from the palette of heat maps.
PLAIN: Final = "#2c728e"
# Legible in grey and to the colour-blind (van der Walt and Smith 2015).
PALETTE: Final = "viridis"
# Lines differ for the colour-blind too (Okabe and Ito 2008), and repeat after seven.
_LINES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_SETTINGS: Final = {
    # Text stays text, which can be searched and edited.
    "svg.fonttype": "none",
    "svg.hashsalt": "packhouse",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linestyle": "-",
    "legend.frameon": False,
    "text.usetex": False,
    "text.parse_math": False,
}
_DOTS_PER_INCH: Final = 150


def check_name(path: str) -> None:
    """Raises Misuse if the name's end tells no kind of picture."""
    if not path.endswith(_ENDINGS):
        raise Misuse(f"--plot '{path}': a picture's name ends in .svg or .png, or in .pdf")


def line_colour(number: int) -> str:
    """The colour of the n-th line."""
    return _LINES[number % len(_LINES)]


@contextlib.contextmanager
def picture(path: str, title: str, width: float, height: float) -> Iterator[Figure]:
    """A figure of so many inches, written to `path` at the end of the block.

    Raises Failure if there is no Matplotlib, OSError if the file cannot be written: then there is
    none.
    """
    # It tells of the fonts that it looks at once.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Failure(
            "NOT_FOUND",
            f"cannot draw '{path}' without Matplotlib (Debian: python3-matplotlib; or pip install "
            f"packhouse[plots]): {error}",
        ) from None
    known = {name: value for name, value in _SETTINGS.items() if name in matplotlib.rcParams}
    with matplotlib.rc_context(known):
        figure = Figure(figsize=(width, height))
        figure.suptitle(plain(title), fontsize=13)
        yield figure
        with signals_raised():
            try:
                # Without the date, equal pictures are equal files.
                metadata = {"Date": None} if path.endswith(".svg") else None
                if path.endswith(".pdf"):
                    metadata = {"CreationDate": None}
                figure.savefig(
                    path, dpi=_DOTS_PER_INCH, metadata=metadata, bbox_inches="tight", pad_inches=0.15
                )
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                raise


def plain(text: str) -> str:
    """As one line."""
    return "".join(c if c.isprintable() else " " for c in text)


def linear_tics(low: float, high: float) -> list[float]:
    """At most about seven whole numbers, at steps of 1, 2 or 5 times a power of ten. Requires
    0 <= low < high.
    """
    step = next(
        factor * 10**exponent
        for exponent in range(20)
        for factor in (1, 2, 5)
        if (high - low) / (factor * 10**exponent) <= 7
    )
    first = math.ceil(max(0.0, low) / step)
    return [float(i * step) for i in range(first, math.floor(high / step) + 1)]


def logarithmic_tics(low: float, high: float) -> list[float]:
    """Powers of ten, also below 1; with 2 and 5 between them if the powers alone would be few.
    Requires 0 < low < high.
    """
    factors = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    every = (factor * 10.0**exponent for exponent in range(-9, 19) for factor in factors)
    # A little slack, since powers below 1 are not exact.
    return [at for at in every if low * (1 - 1e-9) <= at <= high * (1 + 1e-9)]


def tic_text(at: float) -> str:
    """In groups of three digits, or with the decimals that it has."""
    if at >= 1:
        return grouped(round(at))
    return f"{at:.{max(0, -math.floor(math.log10(at) + 1e-9))}f}" if at > 0 else "0"


def set_axis(
    axes: Axes, letter: str, label: str, low: float, high: float, *, logarithmic: bool = False
) -> None:
    """The scale, range, tics and label of axis `x` or `y`."""
    if logarithmic:
        getattr(axes, f"set_{letter}scale")("log")
    tics = logarithmic_tics(low, high) if logarithmic else linear_tics(low, high)
    set_tics(axes, letter, tics, [tic_text(at) for at in tics])
    getattr(axes, f"set_{letter}lim")(low, high)
    getattr(axes, f"set_{letter}label")(plain(label))


def set_tics(axes: Axes, letter: str, places: Sequence[float], texts: Sequence[str]) -> None:
    """Tics at these places alone."""
    axis: Any = getattr(axes, f"{letter}axis")
    axis.set_ticks([], minor=True)
    axis.set_ticks(list(places))
    axis.set_ticklabels(list(texts))


def colour_bar(figure: Figure, axes: Axes, mesh: Any, label: str) -> Any:
    """A bar for the palette to the right of the axes."""
    bar = figure.colorbar(mesh, ax=axes, fraction=0.04, pad=0.02, label=plain(label))
    bar.outline.set_visible(False)
    return bar
