"""Charts of a table that nobody asked for in detail."""

import base64
import importlib
import io
import math
from typing import Any, List

from ._display import display, display_html

__all__ = ["MplChart", "get_df", "quickchart"]

MOST_CHARTS = 8
MOST_VALUES = 12  # a column with more different texts is no category


def quickchart(df: Any) -> None:
    """Show the distributions of a table's columns, and each pair of numbers that stand beside each other."""
    charts = _charts(df)
    if not charts:
        print("No charts: the table has no columns of numbers or of few different values.")
        return
    cells = "".join(f"<div>{each.chart_html}</div>" for each in charts)
    display_html(f'<div style="display: flex; flex-wrap: wrap; gap: 8px">{cells}</div>', f"{len(charts)} charts")


def get_df(df_varname: str) -> Any:
    """Raises, as on Colab: tables are no longer kept under a name."""
    raise ValueError("autoviz.get_df was removed; please re-insert the code for your chart to see updated code.")


class MplChart:
    """A picture of a matplotlib figure."""

    def __init__(self, chart_html: str) -> None:
        self.chart_html = chart_html

    @classmethod
    def from_current_mpl_state(cls) -> "MplChart":
        """The current figure, which is closed."""
        plt, picture = _pyplot(), io.BytesIO()
        plt.savefig(picture, format="png", bbox_inches="tight", facecolor="white")
        plt.close()
        data = base64.b64encode(picture.getvalue()).decode("ascii")
        return cls(f'<img style="width: 240px" alt="chart" src="data:image/png;base64,{data}">')

    def _repr_html_(self) -> str:
        return self.chart_html

    def display(self) -> None:
        """Show it in the cell's output."""
        display(self)


def _charts(df: Any) -> List[MplChart]:
    finite = df.replace([math.inf, -math.inf], math.nan)
    numbers = [name for name in df.select_dtypes("number").columns if finite[name].notna().any()]
    words = [name for name in df.columns if name not in numbers and 0 < df[name].astype(str).nunique() <= MOST_VALUES]
    drawn = [_drawn(str(name), finite[name].dropna().plot.hist, bins=20) for name in numbers[:MOST_CHARTS]]
    drawn += [_drawn(str(name), df[name].astype(str).value_counts().plot.barh) for name in words[:MOST_CHARTS]]
    for x, y in list(zip(numbers, numbers[1:]))[:MOST_CHARTS]:
        drawn.append(_drawn(f"{y} over {x}", finite.plot.scatter, x=x, y=y, s=8))
    return drawn


def _drawn(title: str, plot: Any, **options: Any) -> MplChart:
    _, axes = _pyplot().subplots(figsize=(4, 3))
    plot(ax=axes, title=title.replace("$", r"\$"), **options)  # no formula is meant
    return MplChart.from_current_mpl_state()


def _pyplot() -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise ImportError("google.colab.autoviz needs matplotlib: %pip install matplotlib") from None
