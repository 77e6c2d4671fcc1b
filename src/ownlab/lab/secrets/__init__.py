"""Secrets of a person (tokens, keys), granted to notebooks one by one; `ownlab secrets`, google.colab.userdata, the panel.

- `store`: names, values and grants in a private file; reading for a notebook.
- `keyring_backend`: values in the system keyring, where there is one.
"""
