"""Code as it is typed: what pages changed in a notebook since its file was written.

- `records`: a patch as a page sends it, and the changes that it gets back.
- `three_way`: merges two versions of a text, or of the order of cells, against their common base.
- `base`: a notebook as its file has it. `cell`: a cell after all edits.
- `deleted_cells`: deleted cells, and where they come back if somebody still edits them.
- `edited_notebook`: the state of a notebook after patches: cells, order, metadata; also after its file was changed by
  another program.
- `edit_log`: the patches on disk, until the notebook's file contains them.
"""
