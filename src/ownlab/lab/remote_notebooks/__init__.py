"""Notebooks from elsewhere, for `ownlab open`.

- `addresses`: the page that a person copied -> the address of the notebook file (Colab, GitHub, gist, Hugging Face, nbviewer).
- `importer`: download it (`ownlab.download`) or read it from disk, check that it is a notebook, give it a safe name, and
  save it in the lab's folder without overwriting anything.
"""
