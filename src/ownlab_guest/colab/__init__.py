"""What makes a kernel one of Colab's. `site/` is on sys.path then, and holds google.colab alone."""
