"""Predicted against measured times as a PNG, drawn by Matplotlib (the extra ``plot``)."""

from __future__ import annotations

from pathlib import Path

from ..errors import Error
from .comparison import Comparison
from .scatter import colours, limits, title


def bitmap(comparison: Comparison, file: Path) -> None:
    """Draw the figure of :func:`~feinsum_fuse.report.scatter.scatter` into a PNG file.

    Raises :class:`~feinsum_fuse.errors.Error` without Matplotlib and for a file that cannot be written, ``ValueError`` if nothing was
    judged.
    """
    try:
        from matplotlib.artist import Artist
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "Install the extra: pip install 'feinsum_fuse[plot]'. SVG and HTML need nothing."
        raise Error("a PNG needs Matplotlib", hint=hint) from error
    low, high = limits(comparison)
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.plot([low, high], [low, high], color="#555555", linewidth=1)
    band = axes.fill_between([low, high], [low / 2, high / 2], [2 * low, 2 * high], color="#dddddd", linewidth=0)
    drawn: dict[str, Artist] = {"within a factor of 2": band}
    for name, colour in colours(comparison).items():
        here = [one for one in comparison.judged if one.predicted.bottleneck == name]
        predicted = [one.predicted.predicted_time for one in here]
        drawn[name] = axes.scatter([one.measured for one in here], predicted, s=22, color=colour, alpha=0.8, zorder=3)
    axes.set_xlabel("measured time, median [s]")
    axes.set_ylabel("predicted time [s]")
    axes.set_title(title(comparison), fontsize=8, wrap=True, parse_math=False)
    legend = axes.legend(list(drawn.values()), list(drawn), fontsize=8, title="bound by", title_fontsize=8, loc="upper left")
    for entry in legend.get_texts():
        entry.set_parse_math(False)  # a component's name may have dollars
    try:
        figure.savefig(file, format="png", dpi=150)
    except OSError as error:
        raise Error(f"cannot write {file}: {error.strerror}") from error
