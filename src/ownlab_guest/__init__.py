"""Code that runs inside the user's interpreter, never in ownlab's own process.

Standard library only, and the one library that a module speaks about; Python 3.9 syntax; answers in plain JSON.
"""
