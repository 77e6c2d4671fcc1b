"""Configuration, resolved once; each value with its origin.

settings.py        every setting, declared once: name, type, default, bounds, help; presets of known platforms
setting_checks.py  what settings take
limits.py          the limits of a runtime in seconds, derived from the settings
loader.py          reads the TOML file, the environment and the command line
listing.py         what `ownlab config` prints, and the commented file that it writes
paths.py           the state folder, the configuration file, the folder of kernelspecs
machine_options.py  which machine and which Python a command looks at
environment_names.py  interpreters by the names of environments
"""
