"""Facts about hardware and software that exist, as data with sources and dates. `data/` holds the tables.

Each table says where its figures come from and when they were gathered. What no source states is absent, and the functions
return None or `Unstated`: never a guess.

- `cards`: specifications of cards, and finding a card by name. `card_update`: `ownlab gpus update`.
- `throughput_table`: published measurements. `card_speeds`: the relative speed of cards, measured or computed.
- `gpu_ladder`: cards ranked by speed, price or power.
- `usable_memory`: what programs can use of a card's memory. `published_work`: published throughputs of models and of several cards.
- `platforms`: cloud platforms with their offers, prices and limits.
- `gpus_cli`, `gpus_terminal`, `ladder_chart`: `ownlab gpus`. `clouds_cli`, `clouds_terminal`: `ownlab clouds`.
- `cuda`: which driver runs which CUDA, and CUDA's libraries. `architectures`: compute capabilities, and which code runs on them.
- `torch_wheels`, `frameworks`: the builds of torch, TensorFlow, JAX and CuPy.
- `xids`: NVIDIA's error numbers. `oom_messages`: parses out-of-memory messages in pasted text.
- `versions`: compares version numbers. `data_files`: reads the tables.
"""
