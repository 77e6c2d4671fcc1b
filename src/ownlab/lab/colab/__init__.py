"""What Colab wrote into notebooks: forms in comments, and the metadata beside them."""
