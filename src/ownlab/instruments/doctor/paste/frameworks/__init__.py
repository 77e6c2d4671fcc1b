"""Reports of frameworks and of the system around them: collect_env and its kin, lscpu, pip."""
