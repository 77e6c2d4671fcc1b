"""Colab forms: comments that turn assignments into fields, `steps = 10 #@param {type:"integer"}`.

- `source_lines`: finds comments and assignments in the lines of a cell.
- `grammar`: the form grammar: a cell's source -> `Form` with its fields, text, and the position of each value.
- `field_values`: Python source <-> what a field displays, and the checks of entered values.
- `notebook_forms`: all forms of a notebook, for `ownlab form`.
- `parameters`: fields as parameters of a notebook, for `ownlab run -p NAME=VALUE`.
"""
