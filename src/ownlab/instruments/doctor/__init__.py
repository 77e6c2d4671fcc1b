"""The doctor: rules over a machine (live, recorded, or rebuilt from pasted text) that give findings and a verdict."""
