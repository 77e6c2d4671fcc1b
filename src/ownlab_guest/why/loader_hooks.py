"""DataLoaders: how long the training waits for each, how it was made, and what fetching costs in the workers."""

import contextlib
import functools
import os
import sys
import time
import weakref
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional

from ownlab_guest.why.recorder import DATA, WORKERS, Recorder
from ownlab_guest.why.user_frames import Place, full_name, is_user_file, user_place
from ownlab_guest.why.worker_log import FetchMeter, WorkerLog

__all__ = ["LoaderHooks", "dataset_place"]

# Epochs whose begin is kept.
_MOST_EPOCHS = 200
# Fetches in the main process that are kept one by one, as those of workers are.
_MOST_FETCHES = 5000


class LoaderInfo:
    """One DataLoader of the script."""

    def __init__(self, loader: Any, where: Optional[Place]) -> None:
        self.where = where
        self.settings = _settings(loader)
        self.batches = self.trained = self.wait_ns = 0
        self.epochs: List[List[int]] = []  # of each: time to start the workers, wait for the first batch
        self.pids: List[int] = []
        self.fetches: List[List[int]] = []  # in this process

    def as_json(self) -> Dict[str, Any]:
        """What is written as evidence."""
        return {
            **self.settings,
            "where": self.where._asdict() if self.where else None,
            "batches": self.batches,
            "trained": self.trained,
            "wait_ns": self.wait_ns,
            "epochs": self.epochs,
            "pids": self.pids,
            "fetches": self.fetches,
        }


class LoaderHooks:
    """The hooks of one process. `torch.utils.data` is patched; workers inherit that by fork, or patch it themselves."""

    def __init__(self, recorder: Recorder, folder: str, on_use: Callable[[], None]) -> None:
        self.recorder = recorder
        self.loaders: List[LoaderInfo] = []
        self.last: Optional[LoaderInfo] = None
        self._advancing: Optional[LoaderInfo] = None  # the loader that fetches in this process now
        self.folder = folder
        self._on_use = on_use
        self._by_loader: "weakref.WeakKeyDictionary[Any, LoaderInfo]" = weakref.WeakKeyDictionary()
        self._meter: Optional[FetchMeter] = None
        self._log: Optional[WorkerLog] = None
        self._log_pid = 0

    def forget(self) -> None:
        """Begin anew in a forked process."""
        self.loaders, self.last, self._meter, self._log = [], None, None, None
        self._by_loader = weakref.WeakKeyDictionary()

    def will_start_workers(self) -> bool:
        """Whether a DataLoader has workers that are started again at each epoch, or were not started yet."""
        with_workers = [info for info in self.loaders if info.settings["num_workers"]]
        return any(not info.settings["persistent_workers"] or not info.pids for info in with_workers)

    def backward_began(self) -> None:
        """The last batch was one to train on."""
        if self.last is not None:
            self.last.trained += 1

    # --- in the process that trains -----------------------------------------------------------------------------------

    def patch_loader(self, module: ModuleType) -> None:
        """Patch torch.utils.data.dataloader."""
        loader, iterator = module.DataLoader, module._BaseDataLoaderIter
        self._patch_init(loader)
        self._patch_iter(loader)
        init, advance = iterator.__init__, iterator.__next__
        hooks = self

        @functools.wraps(init)
        def remember(self: Any, loader: Any, *arguments: Any, **options: Any) -> None:
            self._ownlab_info = hooks._info_of(loader)
            init(self, loader, *arguments, **options)

        @functools.wraps(advance)
        def measured(self: Any) -> Any:
            if not hooks.recorder.is_here():
                return advance(self)
            return hooks._advance(self, advance)

        iterator.__init__ = remember
        iterator.__next__ = measured

    def _patch_init(self, loader: Any) -> None:
        init = loader.__init__
        hooks = self

        @functools.wraps(init)
        def remember(self: Any, *arguments: Any, **options: Any) -> None:
            init(self, *arguments, **options)
            hooks._remember(self, user_place(sys._getframe(1)))

        loader.__init__ = remember

    def _patch_iter(self, loader: Any) -> None:
        begin_epoch = loader.__iter__
        hooks = self

        @functools.wraps(begin_epoch)
        def measured(self: Any) -> Any:
            recorder = hooks.recorder
            if not recorder.is_here():
                return begin_epoch(self)
            hooks._on_use()
            recorder.enter(WORKERS)
            began = time.perf_counter_ns()
            try:
                iterator = begin_epoch(self)
            finally:
                recorder.leave()
            hooks._epoch_began(self, iterator, time.perf_counter_ns() - began)
            return iterator

        loader.__iter__ = measured

    def _remember(self, loader: Any, where: Optional[Place]) -> LoaderInfo:
        info = LoaderInfo(loader, where)
        self.loaders.append(info)
        self._by_loader[loader] = info
        return info

    def _info_of(self, loader: Any) -> LoaderInfo:
        return self._by_loader.get(loader) or self._remember(loader, None)

    def _epoch_began(self, loader: Any, iterator: Any, nanoseconds: int) -> None:
        info = self._info_of(loader)
        with contextlib.suppress(
            AttributeError
        ):  # persistent workers have the iterator of the last epoch, or measurement
            iterator._ownlab_info = info
        if len(info.epochs) < _MOST_EPOCHS:
            info.epochs.append([nanoseconds, 0])
        for worker in getattr(iterator, "_workers", ()):
            if worker.pid not in info.pids:
                info.pids.append(worker.pid)

    def _advance(self, iterator: Any, advance: Callable[[Any], Any]) -> Any:
        recorder, info = self.recorder, getattr(iterator, "_ownlab_info", None)
        if info is None:  # it was made before the measurement began
            return self._advance_unknown(iterator, advance)
        torch = sys.modules.get("torch")
        if recorder.validating and info.trained:
            recorder.end_validation()
        elif torch is not None and not info.trained and not torch.is_grad_enabled():
            recorder.begin_validation()
        recorder.enter(DATA)
        self._advancing = info
        began = time.perf_counter_ns()
        try:
            batch = advance(iterator)
        finally:
            recorder.leave()
            self._advancing = None
        waited = time.perf_counter_ns() - began
        self.last = info
        info.batches += 1
        info.wait_ns += waited
        if info.epochs and not info.epochs[-1][1]:
            info.epochs[-1][1] = waited
        recorder.batch_arrived()
        return batch

    def _advance_unknown(self, iterator: Any, advance: Callable[[Any], Any]) -> Any:
        self.recorder.enter(DATA)
        try:
            batch = advance(iterator)
        finally:
            self.recorder.leave()
        self.recorder.batch_arrived()
        return batch

    # --- in the process that fetches ----------------------------------------------------------------------------------

    def patch_fetch(self, module: ModuleType) -> None:
        """Patch torch.utils.data._utils.fetch."""
        for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
            self._patch_fetcher(fetcher)

    def _patch_fetcher(self, kind: Any) -> None:
        fetch = kind.fetch
        hooks = self

        @functools.wraps(fetch)
        def measured(self: Any, index: Any) -> Any:
            worker = _worker_info()
            if worker is None and not hooks.recorder.is_here():
                return fetch(self, index)
            if worker is None:
                return hooks._fetch_here(fetch, self, index)
            log = hooks._worker_log(worker)
            log.meter.collate_timed(self)
            return log.fetch(fetch, self, index)

        kind.fetch = measured

    def _fetch_here(self, fetch: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        if self._meter is None:
            self._meter = FetchMeter()
        self._meter.collate_timed(fetcher)
        batch, costs = self._meter.fetch(fetch, fetcher, index)
        info = self._advancing
        if info is not None and len(info.fetches) < _MOST_FETCHES:
            info.fetches.append(costs)
        return batch

    def _worker_log(self, worker: Any) -> WorkerLog:
        if self._log is None or self._log_pid != os.getpid():
            self._log, self._log_pid = WorkerLog(self.folder, worker.id, worker.dataset), os.getpid()
            util = sys.modules.get("multiprocessing.util")
            if util is not None:  # workers end without `atexit`
                util.Finalize(None, self._log.close, exitpriority=10)
        return self._log


def _worker_info() -> Any:
    module = sys.modules.get("torch.utils.data._utils.worker")
    return None if module is None else module._worker_info


def _settings(loader: Any) -> Dict[str, Any]:
    dataset = loader.dataset
    place = dataset_place(dataset)
    context = getattr(loader, "multiprocessing_context", None)
    method = None if context is None else context.get_start_method()
    return {
        "dataset": type(dataset).__name__,
        "dataset_where": place._asdict() if place else None,
        "iterable": loader._dataset_kind == 1,  # _DatasetKind.Iterable
        "batch_size": loader.batch_size,
        "num_workers": loader.num_workers,
        "pin_memory": bool(loader.pin_memory),
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": bool(loader.persistent_workers),
        "start_method": method,
    }


def dataset_place(dataset: Any) -> Optional[Place]:
    """Where the user's dataset makes a sample: its __getitem__ or __iter__, within Subset, ConcatDataset and the like."""
    for _ in range(5):
        for name in ("__getitems__", "__getitem__", "__iter__"):
            code = getattr(getattr(type(dataset), name, None), "__code__", None)
            if code is not None and is_user_file(code.co_filename):
                return Place(full_name(code.co_filename), code.co_firstlineno, "%s.%s" % (type(dataset).__name__, name))
        inner = getattr(dataset, "dataset", None)
        if inner is None:
            several = getattr(dataset, "datasets", None)
            inner = several[0] if isinstance(several, (list, tuple)) and several else None
        if inner is None:
            return None
        dataset = inner
    return None
