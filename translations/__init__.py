"""How ownlab speaks other languages: what is extracted from the sources, and the catalogues in src/ownlab/locale."""
