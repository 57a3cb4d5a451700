"""The HTML file: the front end's page with one script, one style and the documents inside it.

A policy inside the file lets the browser run that one script and nothing else, load nothing and send nothing. The documents
are data, not script: in them every character that HTML knows is written as JSON's escape, so that no name and no line of
output ends the block.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from pliant.core.errors import NotAvailable
from pliant.dashboard.report.bundle import bundle
from pliant.dashboard.static_files import read_static, static_names
from pliant.dashboard.wire import to_bytes

INDEX = "index.html"
_SCRIPT = re.compile(r"<script\b[^>]*\bsrc=[\"']/?static/([^\"']+)[\"'][^>]*>\s*</script>", re.IGNORECASE)
_LINK = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_HREF = re.compile(r"\bhref=[\"']/?static/([^\"']+)[\"']", re.IGNORECASE)
_HEAD = re.compile(r"<head\b[^>]*>", re.IGNORECASE)
_TITLE = re.compile(r"<title>.*?</title>", re.IGNORECASE | re.DOTALL)
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(documents: Mapping[str, Any], title: str) -> str:
    names = static_names()
    if INDEX not in names:
        raise NotAvailable("this installation has no front end", hint="install Pliant from a complete package")
    index = read_static(INDEX).decode()
    script_tag = _SCRIPT.search(index)
    if script_tag is None:
        raise NotAvailable(f"the front end's {INDEX} has no script")
    script = bundle(script_tag[1], lambda path: read_static(path).decode())
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    styles = "\n".join(read_static(name).decode() for name in _stylesheets(index)).replace("</style", "<\\/style")
    data = embedded(documents)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(styles)}; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    block = f'<script type="application/json" id="pliant-documents">{data}</script>\n'
    html = _LINK.sub("", index[: script_tag.start()])
    html = _TITLE.sub(lambda _: f"<title>{escape(title)}</title>", html)
    html = _HEAD.sub(lambda match: f"{match[0]}\n{head}<style>{styles}</style>\n", html, count=1)
    rest = index[script_tag.end() :]
    return f'{html}{block}<script type="module">{script}</script>{rest}'


def embedded(documents: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element."""
    text = to_bytes(documents).decode()
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match[0]], text)


def documents_in(html: str) -> dict[str, Any]:
    """The documents of a report, as its script reads them."""
    start = html.index('id="pliant-documents">') + len('id="pliant-documents">')
    found: dict[str, Any] = json.loads(html[start : html.index("</script>", start)])
    return found


def _stylesheets(index: str) -> list[str]:
    found = []
    for link in _LINK.findall(index):
        href = _HREF.search(link)
        if href is not None and "stylesheet" in link:
            found.append(href[1])
    return found


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
