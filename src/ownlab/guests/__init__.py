"""Child processes with deadlines: tools of the system, and guest code in the user's interpreters.

`children.run` starts any program; `guest.ask` starts a module of `ownlab_guest` in a given interpreter and validates its
answer. Whatever may hang or crash (a driver, a framework's import) is behind one of the two.
"""
