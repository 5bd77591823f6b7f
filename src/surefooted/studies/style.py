"""How figures look, and how they are written: the same call gives the same bytes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from surefooted.errors import InvalidInput
from surefooted.tables.files import replacing

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe & Ito (2008)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
STYLE: Any = {
    "figure.figsize": (5.2, 3.4),
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,  # fonts are embedded
    "svg.hashsalt": "surefooted",
    "svg.fonttype": "path",  # letters are shapes: the same without the font
}
COLUMNS = {"single": 3.35, "double": 6.9}  # inches: the columns of most journals and proceedings
_WRITERS: dict[
    str, tuple[Any, str, dict[str, Any]]
] = {  # the canvas, its method, and what files say: no dates, no versions
    "png": (FigureCanvasAgg, "print_png", {"Software": None}),
    "pdf": (FigureCanvasPdf, "print_pdf", {"CreationDate": None, "Producer": None, "Creator": None}),
    "svg": (FigureCanvasSVG, "print_svg", {"Date": None, "Creator": None}),
}


@contextmanager
def styled(width: float | None = None) -> Iterator[None]:
    """Figures made in this context look the same everywhere; with a width in inches, they fit a column.

    The current directory may hold a `matplotlibrc`, which could name a module to import or send labels to LaTeX. So its
    settings are dropped, and no figure is made by pyplot, which would import the backend that they name.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        if width is not None:
            small: Any = {"font.size": 8, "legend.fontsize": 7, "lines.linewidth": 1.2, "axes.titlesize": 8}
            matplotlib.rcParams.update(small)
        yield


def save(figure: Figure, path: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure in some formats. It is drawn once for each.

    `Figure.savefig` would draw it twice for each, since it looks for the size first.
    """
    written = []
    for kind in formats:
        if kind not in _WRITERS:
            raise InvalidInput("this figure cannot be written", [f"format {kind!r}: there are {', '.join(_WRITERS)}"])
        canvas, method, metadata = _WRITERS[kind]
        written.append(path.with_name(f"{path.name}.{kind}"))
        shown_at, finer = figure.dpi, matplotlib.rcParams["savefig.dpi"]
        figure.dpi = 72 if kind != "png" else shown_at if finer == "figure" else finer
        with replacing(written[-1]) as file:  # a link of that name is replaced, not followed
            getattr(canvas(figure), method)(file, metadata=metadata)
        figure.dpi = shown_at
        figure.set_layout_engine("none")  # the first format has found the layout
    return written
