"""Outputs in tabs."""

from typing import Any, ContextManager, Iterator, Optional, Sequence, Union

from . import _widget

LOCATIONS = ("top", "bottom", "start", "end")


class TabBar(_widget.OutputAreaWidget):
    """Outputs in tabs: `with tabs.output_to('first'): print(…)`. The tabs are on top, whatever `location` is."""

    def __init__(self, tab_names: Sequence[str], location: str = "top") -> None:
        if location not in LOCATIONS:
            raise ValueError(f"Invalid value for location: {location!r}")
        self.tab_names = tab_names
        super().__init__(len(tab_names))
        self._tabs: Any = _widget.ipywidgets().Tab(children=self._parts)
        for index, name in enumerate(tab_names):
            self._tabs.set_title(index, str(name))
        self._show(self._tabs)

    def output_to(self, tab: Union[str, int], select: bool = True) -> ContextManager[None]:
        """Redirect outputs to a tab, by name or index, and select it unless select is False."""
        index = self._index(tab)
        if select:
            self._tabs.selected_index = index
        return self._output_in(index)

    def clear_tab(self, tab: Optional[Union[str, int]] = None) -> None:
        """Clear a tab, or the current one."""
        self._clear(None if tab is None else self._index(tab))

    def __iter__(self) -> Iterator[int]:
        for index in range(len(self._parts)):
            with self.output_to(index):
                yield index

    def _index(self, tab: Union[str, int]) -> int:
        if not isinstance(tab, str):
            return range(len(self._parts))[tab]
        names = list(self.tab_names)
        if names.count(tab) > 1:
            raise ValueError(f"Ambiguous tab name: {tab}")
        if tab not in names:
            raise ValueError(f"{tab!r} is not a tab: {', '.join(map(repr, names))}")
        return names.index(tab)
