"""Additions to Sphinx for the site: formulas without JavaScript, links from code to the reference, shapes, and a theme."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from rfnb.site.formula import mathml

log = logging.getLogger(__name__)
# `rf.softmax`, `rf.softmax(x, axis=time)`, `rf.Dim(...)`, `rfnb.models.load_g2p()`
_NAME = re.compile(r"^(rf(?:nb)?(?:\.\w+)+)(?:\(.*)?$", re.DOTALL)

_UNSEEN = re.compile(
    r"""<(script|style|svg|h1)\b.*?</\1>|<a class="headerlink".*?</a>|<p class="rfnb-about">.*?</p>""", re.DOTALL
)
_MOST_TEXT = 30_000  # letters of a page that the search has at hand


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    app.add_role("shape", _shape)
    app.add_post_transform(LinkCode)
    app.add_post_transform(LinkAnnotations)
    app.add_css_file("site.css")
    app.connect("html-page-context", _keep_text)
    app.connect("html-page-context", _name_pages_by_titles, priority=400)  # the theme asks for the tree at 500
    app.connect("build-finished", _write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _keep_text(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Keep what a page says, which search cannot fetch from files; the page of the search gets it all."""
    if page == "search":
        for file in ("texts.js", "search.js"):
            app.add_js_file(file)
    elif doctree is not None:
        body = _UNSEEN.sub(" ", context["body"])
        texts = app.env.__dict__.setdefault("rfnb_texts", {})
        texts[page] = " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())[:_MOST_TEXT]


def _write_texts(app: Sphinx, exception: Exception | None) -> None:
    if exception is None:
        texts = json.dumps(app.env.__dict__.get("rfnb_texts", {}), ensure_ascii=False).replace("</", "<\\/")
        (Path(app.outdir) / "_static/texts.js").write_text(f"var RFNB_TEXTS = {texts};\n", "utf-8")


def _name_pages_by_titles(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Make the tree of pages beside each page from titles: Sphinx copies every heading of every page and then drops it."""
    resolve = context.get("toctree")
    if resolve is None:
        return
    env = app.env
    titles = env.__dict__.setdefault("rfnb_titles", {})
    if not titles:
        titles.update({name: _titles(contents) for name, contents in env.tocs.items()})

    def toctree(**options: Any) -> str:
        contents = env.tocs
        env.tocs = titles if options.get("titles_only") else contents
        try:
            return str(resolve(**options))
        finally:
            env.tocs = contents

    context["toctree"] = toctree


def _titles(contents: nodes.bullet_list) -> nodes.bullet_list:
    """The contents of a page without headings below its title, as `titles_only` leaves them."""
    found = contents.deepcopy()
    for entry in found.children:
        if isinstance(entry, nodes.list_item) and len(entry) > 1:
            below = list(entry.findall(addnodes.toctree))
            if below:
                entry[1][:] = below
            else:
                entry.pop(1)
    return found


def _shape(
    name: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = None
) -> tuple[list[nodes.Node], list[Any]]:
    return [nodes.literal(text, text, classes=["rfnb-shape"])], []


class LinkAnnotations(SphinxPostTransform):
    """Resolve `Tensor` in a signature to `rf.Tensor`; names outside the reference (`int`, `Callable`) become plain text."""

    default_priority = (
        5  # before Sphinx resolves names by their suffixes, of which there are many: `rf.viz.dims`, `rf.Loss.dims`
    )

    def run(self, **options: Any) -> None:
        objects = self.env.domains["py"].data["objects"]
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") != "py":
                continue
            target = node["reftarget"]
            known = next((name for name in (target, f"rf.{target}", f"rf.viz.{target}") if name in objects), None)
            if known is None:
                node.replace_self(node.children)
            else:
                node["reftarget"] = known
                node.attributes.pop("refspecific", None)


class LinkCode(SphinxPostTransform):
    """Link inline code that is a public name, or a call of one, to the reference."""

    default_priority = 400

    def run(self, **options: Any) -> None:
        domain = self.env.domains["py"]
        objects = domain.data["objects"]
        for node in list(self.document.findall(nodes.literal)):
            match = _NAME.match(node.astext())
            inside = isinstance(node.parent, nodes.reference) or node.parent is None
            if match is None or inside:
                continue
            name = _known(match[1], objects)
            if name is not None:
                found = objects[name]
                target = nodes.reference("", "", internal=True, reftitle=name)
                uri = self.app.builder.get_relative_uri(self.env.docname, found.docname)
                if found.docname == self.env.docname:
                    target["refid"] = found.node_id
                else:
                    target["refuri"] = f"{uri}#{found.node_id}"
                node.replace_self(target)
                target += node


def _known(name: str, objects: Any) -> str | None:
    """The longest prefix of a dotted name that is in the reference and is not just `rf`."""
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        begin = ".".join(parts[:length])
        for known in (begin, begin.replace("rfnb.", "rf.", 1)):
            if known in objects:
                return known
    return None


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_formula(node, as_block=False))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    label = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="rfnb-formula"{label}>{_formula(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _formula(node: Any, *, as_block: bool) -> str:
    made = mathml(node.astext(), as_block=as_block)
    if made is None:
        log.warning("a formula that MathML cannot show: %s", node.astext(), location=node)
    return made or f"<code>{escape(node.astext())}</code>"
