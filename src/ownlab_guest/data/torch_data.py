"""The data set for torch: an IterableDataset, and a DataLoader whose state is exact whatever its workers have read ahead."""

from typing import Any, Dict, Iterator

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ownlab_guest.data.dataset import PackedDataset
from ownlab_guest.data.errors import DataError
from ownlab_guest.text import text


class SampleStream(IterableDataset):  # type: ignore[misc,type-arg,unused-ignore]  # torch is not installed for mypy
    """The samples of one process. In workers of a DataLoader each reads its own batches."""

    def __init__(self, dataset: PackedDataset, batch: int = 1, *, counted: bool = False) -> None:
        """counted: a CountingLoader counts what is taken."""
        self.dataset = dataset
        self.batch, self.counted = batch, counted

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        if count > 1 and self.dataset.settings.threads is None:
            # Several workers decode beside each other already.
            self.dataset.settings = self.dataset.settings._replace(threads=1)
        if worker is None and not self.counted:
            return iter(self.dataset)
        return self.dataset.samples(self.dataset.worker_segments(self.batch, number, count))

    def __len__(self) -> int:
        return self.dataset.samples_left()


class CountingLoader(DataLoader):  # type: ignore[misc,type-arg,unused-ignore]
    """A DataLoader with state_dict and load_state_dict. Each pass reads what is left of the epoch, then the next one begins."""

    packed: PackedDataset

    def __iter__(self) -> Iterator[Any]:
        self.packed.begin()
        left = self.packed.samples_left()
        # A copy of the state as it is now goes to the workers.
        for batch in super().__iter__():
            size = min(self.batch_size, left)
            left -= size
            self.packed.advance(size)
            yield batch
        self.packed.set_epoch(self.packed.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch."""
        self.packed.set_epoch(epoch)

    def state_dict(self) -> Dict[str, Any]:
        """Return where reading is, after the last batch that was given out."""
        return self.packed.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continue from a state, also with other workers or processes."""
        self.packed.load_state_dict(state)


def make_loader(dataset: PackedDataset, batch: int, workers: int, options: "Dict[str, Any]") -> CountingLoader:
    """Make the loader. `options` go to torch's DataLoader."""
    for name in ("shuffle", "sampler", "batch_sampler", "persistent_workers"):
        if options.pop(name, None):
            raise DataError(
                text(
                    "{name} does not go with this loader: ownlab.data.open(…, shuffle=True) orders the samples.",
                    name=name,
                )
            )
    if workers and not dataset.settings.copy:
        raise DataError(text("copy=False does not go with workers: memory of one process is nothing in another one."))
    options.setdefault("drop_last", dataset.settings.drop_last)
    loader = CountingLoader(
        SampleStream(dataset, batch, counted=True), batch_size=batch, num_workers=workers, **options
    )
    loader.packed = dataset
    return loader
