"""Notebooks that were written for Colab. `detection`: by their metadata and imports. The stand-in for google.colab is in ownlab_guest."""
