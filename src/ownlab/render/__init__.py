"""Output that all features share.

console.py     the Rich console: width, colours, pipes
documents.py   the JSON documents that commands print, and their schemas
charts.py      Vega-Lite charts, saved as PNG, SVG or HTML
typescript.py  TypeScript declarations of the records that the page receives
"""
