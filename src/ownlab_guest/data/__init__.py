"""Data sets as tar shards with a binary index: written, checked and read. Standard library; Pillow, numpy, torch, pyarrow where present.

- `shard_index.py`, `tar_members.py`, `manifest.py`: the format. `docs/reference/data-format.md` describes it.
- `sources/`: what can be packed: folders, archives, tables, Hugging Face data sets.
- `spool.py`, `sealed_json.py`, `digests.py`, `shard_writer.py`, `packing.py`: listing and shuffling in bounded memory, writing, resuming.
- `verification.py`, `repair.py`: checking a packed data set, and repairing it from its source.
- `epoch_order.py`, `block_reader.py`, `page_cache.py`, `checked_samples.py`, `decoding.py`, `dataset.py`, `torch_data.py`, `shard_cache.py`: reading.
- `inspection.py`, `image_header.py`, `rates.py`: what is in a folder, and how fast it is read.
- `pack.py`, `verify.py`, `inspect_data.py`, `bench.py`: what the host starts; one JSON object per line.
"""
