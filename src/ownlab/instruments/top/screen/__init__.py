"""The full screen of `ownlab top`, made with Textual.

app.py       the app: layout, keys, redrawing
model.py     its state (samples, selection, filter), and the thread that takes samples
widgets.py   title, cards, host and processes; bars and graphs
dialogs.py   help, explanation of a verdict, filter, signal
signals.py   signals to the user's own processes
"""
