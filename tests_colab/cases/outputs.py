"""Outputs of cells, and calls to a page that is missing."""

from __future__ import annotations

from tests_colab.cases.case import HTML, JAVASCRIPT, Case, like

__all__ = ["CASES"]

_NOBODY = "eval_js needs a page: nobody can answer: this notebook runs without a page\n"

CASES = (
    Case(
        "eval_js",
        texts={
            "photo": JAVASCRIPT + "google.colab._message MessageError\n" + _NOBODY,
            "proxy": "http://localhost:5000/\nhttp://localhost:8080/\n",
            "ignored": "None\nbeneath\nsomewhere\n",
            "title": "MessageError: " + _NOBODY,
            "beep": JAVASCRIPT,
        },
        displays={"photo": "window.snap", "beep": r"console\.log"},
    ),
    Case(
        "serve_port",
        texts={
            "page_too_early": like(r"Writing site/index.html\nFileNotFoundError: [^\n]*\n"),
            "page": "Writing site/index.html\n",
            "curl": "<h1>Hello from the kernel</h1>\n",
            "iframe": like(r"http://localhost:\d+/index.html\n"),
            "window": like(r"http://localhost:\d+/\n"),
            "background": "running\n",
        },
        displays={
            "iframe": r"proxyPort\(\d+, .*/index\.html.*createElement\('iframe'\).*height: \"250\"",
            "window": r'<a href="http://localhost:\d+/" target="_blank" rel="noopener">open &lt;it&gt;</a>',
        },
    ),
    Case(
        "callbacks",
        texts={
            "button": HTML,
            "unregister": "Callback function not registered: app.greet. []\n",
            "clear": "step 2\n",
            "clear_wait": "stays\n",
            "tags": "[]\n[]\nbetween\n",  # what had the tag is there, and empty
            "temporary": "[]\nDone.\n",
        },
        displays={"button": r"google\.colab\.kernel\.invokeFunction"},
    ),
    Case(
        "tabs_and_grid",
        texts={
            "tabs": "Tab(children=(Output(), Output(), Output()), selected_index=0, titles=('train', 'test', 'log'))\n",
            "grid": like(r"VBox\(children=\(HTML\(value='<style>\.ownlab-grid-[^\n]*\n"),
            "made": like(r"VBox\(children=\(HTML\(value='<style>\.ownlab-grid-[^\n]*\n"),
            "wrong": "ValueError\nWidgetException\nValueError\n",
            "remove": "removed\n",
        },
    ),
    Case(
        "data_table",
        texts={
            "frames": "Writing frames.py\n",
            "show": like(".+\n"),
            "many": like(
                r"Warning: total number of rows \(4\) exceeds max_rows \(3\)\. Showing the first ones\.\n.+\n"
            ),
            "default": like(r"Warning: total number of columns \(2\) exceeds max_columns \(1\)\. .+\n"),
            "markup": "'SELECT 1'\n",
        },
        displays={
            "show": r'"city","people"\], \[\["Berlin",3700000\],\["\\u0141\\u00f3d\\u017a",670000\],\["\\u003c/script>",0\]\], 2\)</script>',
            "many": r'\["index","n"\], \[\[0,0\],\[1,1\],\[2,2\]\], 25\)',
            "default": r'\["index","city"\], \[\[0,"Berlin"\]',
        },
    ),
    Case(
        "plots",
        texts={
            # matplotlib's, where it is installed
            "plot": like("<Figure size 200x100 with 1 Axes>\n|<IPython.core.display.SVG object>\n"),
            "image": "<IPython.core.display.Image object>\n",
            "audio": "<IPython.lib.display.Audio object>\n",
            "imshow": like("(No module named 'cv2'\n)?"),
            "rich": "<IPython.core.display.Markdown object>\n<IPython.core.display.Math object>\n" + HTML,
        },
        displays={
            "plot": r"image/png:\niVBORw0KGgo|image/svg\+xml:\n<svg",
            "image": r"image/png:\niVBORw0KGgo",
            "audio": "data:audio/[^;]*wav;base64,UklGR",
            "rich": r"text/markdown:\n\*\*done\*\*\n.*text/latex:\n.*x\^2.*text/html:\n<i>ok</i>",
        },
    ),
    Case(
        "progress_bars",
        texts={
            "tqdm": like(r"plain: 100%\|[^\n]*50/50 .*1225\n\s*"),
            "auto": like(r"widget: [^\n]*0/3 [^\n]*\n"),
            "notebook": like(r"[^\n]*0/3 [^\n]*\n6\n"),
            "returns": "Downloading 100 %\n",
            "shell_bar": "100%\n",
            "clears": "step 4\n",
            "handle": "'ready'\n",
            "widgets": "IntSlider(value=3, max=10)\n8\n",
            "interact": like(r"interactive\(children=\(IntSlider\(value=4[^\n]*\n"),
        },
    ),
    Case(
        "long_outputs",
        texts={
            "lines": "".join(f"line {number}\n" for number in range(5000)),
            "wide": "x" * 100_000 + "\n",
            "colours": "\x1b[1;31mred\x1b[0m and plain\n",
            "stderr": "to stderr\n",
            "mixed": "one\n" + HTML + "three\n",
            "dictionary": "{'b': [1, 2], 'a': None}\n",
            "last_of_several": "2\n",
            "every_one": "3\n4\n",
        },
    ),
)
