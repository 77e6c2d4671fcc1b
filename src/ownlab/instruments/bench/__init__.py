"""How fast a machine is: a guest measures in the person's Python, the host adds up, judges, keeps and compares."""
