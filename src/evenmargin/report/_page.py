"""The page: the template, its style and its script in one file, whose policy forbids to load anything."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from . import _words
from ._charts import bar, dots

__all__ = ["page", "safe_json"]


def page(context: dict[str, Any], data: dict[str, Any]) -> str:
    """The page of these figures, with `data` for its script. The template escapes everything but our own charts."""
    style, script = _source("page.css"), _source("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _template().render(
        **context, style=Markup(style), script=Markup(script), policy=policy, data=Markup(safe_json(data))
    )


def safe_json(data: object) -> str:
    """JSON that can neither close the element that contains it nor open another.

    >>> safe_json({"</script>": "<!--"})
    '{"\\\\u003c/script\\\\u003e": "\\\\u003c!--"}'
    """
    text = json.dumps(data, allow_nan=False)  # in ASCII, line separators are written as \\u2028
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {name: getattr(_words, name) for name in _words.__all__}
    environment.globals |= {"bar": bar, "dots": dots}
    return environment.from_string(_source("page.html.jinja"))
