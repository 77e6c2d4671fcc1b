"""google.colab.autoviz: automatic charts of a DataFrame."""

import base64
import importlib
import io
import math
from typing import Any, List

from ._display import display, display_html

__all__ = ["MplChart", "get_df", "quickchart"]

MAX_CHARTS = 8
MAX_CATEGORIES = 12  # a column with more different texts is not categorical


def quickchart(df: Any) -> None:
    """Show the distributions of the columns, and scatter plots of adjacent numeric columns."""
    charts = _charts(df)
    if not charts:
        print("No charts: the table has no numeric or categorical columns.")
        return
    cells = "".join(f"<div>{each.chart_html}</div>" for each in charts)
    display_html(f'<div style="display: flex; flex-wrap: wrap; gap: 8px">{cells}</div>', f"{len(charts)} charts")


def get_df(df_varname: str) -> Any:
    """Raise, as on Colab: tables are no longer kept under a name."""
    raise ValueError("autoviz.get_df was removed; please re-insert the code for your chart to see updated code.")


class MplChart:
    """An image of a matplotlib figure."""

    def __init__(self, chart_html: str) -> None:
        self.chart_html = chart_html

    @classmethod
    def from_current_mpl_state(cls) -> "MplChart":
        """Capture and close the current figure."""
        plt, picture = _pyplot(), io.BytesIO()
        plt.savefig(picture, format="png", bbox_inches="tight", facecolor="white")
        plt.close()
        data = base64.b64encode(picture.getvalue()).decode("ascii")
        return cls(f'<img style="width: 240px" alt="chart" src="data:image/png;base64,{data}">')

    def _repr_html_(self) -> str:
        return self.chart_html

    def display(self) -> None:
        """Display it in the cell's output."""
        display(self)


def _charts(df: Any) -> List[MplChart]:
    finite = df.replace([math.inf, -math.inf], math.nan)
    numbers = [name for name in df.select_dtypes("number").columns if finite[name].notna().any()]
    words = [
        name for name in df.columns if name not in numbers and 0 < df[name].astype(str).nunique() <= MAX_CATEGORIES
    ]
    drawn = [_draw(str(name), finite[name].dropna().plot.hist, bins=20) for name in numbers[:MAX_CHARTS]]
    drawn += [_draw(str(name), df[name].astype(str).value_counts().plot.barh) for name in words[:MAX_CHARTS]]
    for x, y in list(zip(numbers, numbers[1:]))[:MAX_CHARTS]:
        drawn.append(_draw(f"{y} over {x}", finite.plot.scatter, x=x, y=y, s=8))
    return drawn


def _draw(title: str, plot: Any, **options: Any) -> MplChart:
    _, axes = _pyplot().subplots(figsize=(4, 3))
    plot(ax=axes, title=title.replace("$", r"\$"), **options)  # not a formula
    return MplChart.from_current_mpl_state()


def _pyplot() -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise ImportError("google.colab.autoviz needs matplotlib: %pip install matplotlib") from None
