"""Finds the main content of a web page: what is not content is left out, then the part is taken that holds the rest.

Pages of documentation nearly always say which part that is (`main`, `article`). Elsewhere it is the smallest part with
most of the text. The tree stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

# What holds no text of the page, and what HTML itself names as surroundings.
_SKIPPED_TAGS = (
    "script style template noscript nav iframe svg button select input textarea label dialog canvas object audio "
    "video datalist noframes noembed rp title"
)
SKIPPED_TAGS = frozenset(_SKIPPED_TAGS.split())
# The labels of tabs are written above their contents (`tabs.py`).
SKIPPED_ROLES = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "tablist"))
# A header in one of these is part of the text.
PART_TAGS = frozenset(("main", "article", "section"))
# What nobody sees is nobody's statement, and may be there for those who quote it.
_HIDDEN_STYLE = re.compile(
    r"(?<![\w-])(?:display:none|visibility:hidden|(?:font-size|opacity):0(?![\d.]{0,9}[1-9])"
    # Cut to a point, which only screen readers read aloud.
    r"|clip:rect\((?:[01](?:px)?,?){4}\)|clip-path:inset\((?:50|100)%)"
)
_STYLE_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
# Words in the classes and ids of surroundings, and in those of an `aside` that is a note in the text.
_SURROUNDINGS = (
    "ad ads advert advertisement author banner breadcrumb breadcrumbs byline comments cookie cookies disqus footer "
    "masthead menu modal nav navbar navigation newsletter outbrain pager pagination popup promo recommended related "
    "respond share sharing sidebar skip social sponsor sponsored subscribe taboola teaser teasers toc widget"
)
_NOTES = "admonition alert callout caution danger footnote hint important info note tip warning"
SURROUNDINGS = frozenset(_SURROUNDINGS.split())
NOTES = frozenset(_NOTES.split())
NAMED_TAGS = ("div", "section", "ul", "ol", "aside", "p", "span", "table", "header", "form")
LIST_TAGS = ("ul", "ol", "div", "section", "table", "p")
PARAGRAPH_TAGS = ("p", "pre", "td", "blockquote", "li", "dd")
HEADING_TAGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# What a button shows and hides is titled by it, where it is all that one of these holds.
TITLE_TAGS = (*HEADING_TAGS, "dt", "summary")
MAX_TITLE_DEPTH = 3
MAX_TITLE_PIECES = 50
MAX_TITLE_CHARS = 200
SCREEN_READER_CLASSES = frozenset(("screen-reader-text", "sr-only", "visually-hidden", "visuallyhidden"))
_WORDS = re.compile(r"[a-z]+")
# What a build appends to the name of a class, as in `row_ad2x`.
_HASH = re.compile(r"_(?=[\w-]{0,5}[A-Z0-9])[\w-]{4,6}(?!\S)")

# Surroundings have at most this share of a page's text; a form around a whole page has more.
MAX_SURROUNDINGS_SHARE = 0.4
# What a page names as its main part has at least this share of the text, or so many characters.
MIN_MAIN_SHARE = 0.3
MIN_MAIN_CHARS = 400
MIN_ARTICLE_SHARE = 0.6
# A list of so many links, with little other text, leads elsewhere; where such lists are most of a page, they are it.
MIN_LINKS = 3
MIN_LINK_SHARE = 0.7
MAX_LISTS_SHARE = 0.5
MIN_DENSE_SHARE = 0.8
MIN_PARAGRAPH_CHARS = 25
MAX_PARAGRAPH_LINK_SHARE = 0.5


@dataclass(slots=True)
class _Size:
    chars: int = 0
    link_chars: int = 0
    links: int = 0
    # Of paragraphs that are not links.
    paragraph_chars: int = 0


_Sizes = dict[Any, _Size]


def find_main_content(tree: Any) -> tuple[Any, set[Any]]:
    """Return the element of a parsed page that holds its content, and the elements in it that are none."""
    body = tree.find(".//body")
    body = tree if body is None else body
    skipped = _find_skipped(body)
    sizes = _measure(body, skipped)
    limit = MAX_SURROUNDINGS_SHARE * sizes[body].chars
    skipped |= {
        element
        for element in body.iter(*NAMED_TAGS)
        if element in sizes and sizes[element].chars <= limit and _is_surroundings(element)
    }
    main = _choose_main(body, _measure(body, skipped))
    return main, skipped | _find_link_lists(main, _measure(main, skipped))


def _find_skipped(body: Any) -> set[Any]:
    """Return what is no content by its tag, its role or its style. Takes a time that grows with the page."""
    from lxml import etree

    skipped = set()
    part_depth = 0
    with_main = _find_ancestors(body.iter("main", "article"))
    folded = {panel for _, panel in match_disclosures(body)}
    for event, element in etree.iterwalk(body, events=("start", "end")):
        is_part = element.tag in PART_TAGS or element.get("role") == "main"
        if event == "end":
            part_depth -= is_part
            continue
        is_footer = element.tag == "footer" and element not in with_main
        is_header = element.tag == "header" and not part_depth
        if element is not body and (is_footer or is_header or _is_no_content(element, folded)):
            skipped.add(element)
        part_depth += is_part
    return skipped


def _find_ancestors(elements: Iterable[Any]) -> set[Any]:
    ancestors: set[Any] = set()
    for element in elements:
        for ancestor in element.iterancestors():
            if ancestor in ancestors:
                break
            ancestors.add(ancestor)
    return ancestors


def match_disclosures(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the buttons that show and hide a part of the text, each with that part, and no menu or window.

    It is what they name, or what follows them, or the heading that they are.
    """
    buttons = [
        button for button in root.iter("button") if button.get("aria-expanded") and not button.get("aria-haspopup")
    ]
    panels = {element.get("id"): element for element in root.iterfind(".//*[@id]")} if buttons else {}
    for button in buttons:
        title = _find_title(button)
        panel = panels.get(button.get("aria-controls"), (button if title is None else title).getnext())
        if panel is not None:
            yield button, panel


def is_title(button: Any) -> bool:
    """Return whether a button is all that a heading, a term or a summary says."""
    return _find_title(button) is not None


def _find_title(button: Any) -> Any:
    titles = [holder for holder in islice(button.iterancestors(), MAX_TITLE_DEPTH) if holder.tag in TITLE_TAGS]
    text = _read_short(button) if titles else ""
    return next((title for title in reversed(titles) if text and _read_short(title) == text), None)


def _read_short(element: Any) -> str:
    """Return the text of an element; nothing where it is long, for many may ask for it."""
    pieces: list[str] = []
    for piece in element.itertext():
        pieces.append(piece)
        if len(piece) > MAX_TITLE_CHARS or len(pieces) > MAX_TITLE_PIECES:
            return ""
    return "".join(pieces).strip()


def _is_no_content(element: Any, folded: Collection[Any]) -> bool:
    role = element.get("role", "").lower()
    if (element.tag in SKIPPED_TAGS and not (element.tag == "button" and is_title(element))) or role in SKIPPED_ROLES:
        return True
    if element.tag == "aside" and not _get_names(element) & NOTES:
        return True
    # Tabs that are not shown are content, and so is what a button unfolds.
    is_shown_later = role == "tabpanel" or element in folded
    return not is_shown_later and (is_hidden(element) or _is_for_screen_readers(element))


def is_hidden(element: Any) -> bool:
    """Return whether nobody sees an element, as far as its own attributes tell."""
    # What may be found in a page is unfolded where it is.
    if (
        element.get("hidden", "until-found").lower() != "until-found"
        or element.get("aria-hidden", "").lower() == "true"
    ):
        return True
    style = _STYLE_COMMENT.sub("", element.get("style") or "")
    return _HIDDEN_STYLE.search("".join(style.lower().split())) is not None


def _is_for_screen_readers(element: Any) -> bool:
    """Return whether only screen readers read an element aloud; a heading hidden in this way still names its part."""
    return element.tag not in HEADING_TAGS and not SCREEN_READER_CLASSES.isdisjoint(element.get("class", "").split())


def _get_names(element: Any) -> set[str]:
    classes = _HASH.sub("", element.get("class", ""))
    return set(_WORDS.findall(f"{classes} {element.get('id', '')}".lower()))


def _is_surroundings(element: Any) -> bool:
    if element.tag == "form":
        return True
    # The id of a section of a text comes from its heading, which may be "Cookies".
    is_section = element.tag == "section" or "section" in element.get("class", "").split()
    return not is_section and not _get_names(element).isdisjoint(SURROUNDINGS)


def _measure(root: Any, skipped: set[Any]) -> _Sizes:
    """Return the amount of text in each element that is not skipped nor in one that is."""
    from lxml import etree

    sizes: _Sizes = {root: _Size()}
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event == "start":
            if element in skipped and element is not root:
                walker.skip_subtree()
            else:
                sizes[element] = _Size(len((element.text or "").strip()))
        elif element is not root:
            above = sizes[element.getparent()]
            above.chars += len((element.tail or "").strip())
            if element in sizes:
                _add_size(element, sizes[element], above)
    return sizes


def _add_size(element: Any, size: _Size, above: _Size) -> None:
    if element.tag == "a":
        size.link_chars = size.chars
        size.links = 1
    if element.tag in PARAGRAPH_TAGS and size.chars >= MIN_PARAGRAPH_CHARS:
        is_text = size.link_chars <= MAX_PARAGRAPH_LINK_SHARE * size.chars
        size.paragraph_chars = size.chars if is_text else 0
    above.chars += size.chars
    above.link_chars += size.link_chars
    above.links += size.links
    above.paragraph_chars += size.paragraph_chars


def _choose_main(body: Any, sizes: _Sizes) -> Any:
    enough = min(MIN_MAIN_SHARE * sizes[body].chars, MIN_MAIN_CHARS)
    main = _find_largest(body.xpath(".//main|.//*[@role='main']"), enough, sizes)
    around = body if main is None else main
    articles = around.xpath(".//article|.//*[@itemprop='articleBody']")
    article = _find_largest(articles, MIN_ARTICLE_SHARE * sizes[around].chars, sizes)
    if article is not None:
        return article
    return _find_dense(body, sizes) if main is None else main


def _find_largest(elements: Iterable[Any], min_chars: float, sizes: _Sizes) -> Any | None:
    candidates = [element for element in elements if element in sizes and sizes[element].chars >= max(1, min_chars)]
    return max(candidates, key=_get_chars(sizes), default=None)


def _find_dense(body: Any, sizes: _Sizes) -> Any:
    """Return the smallest part that holds most of the text in paragraphs."""
    enough = max(1, MIN_DENSE_SHARE * sizes[body].paragraph_chars)
    candidates = (
        element
        for element, size in sizes.items()
        if size.paragraph_chars >= enough and element.tag not in PARAGRAPH_TAGS
    )
    return min(candidates, key=_get_chars(sizes), default=body)


def _get_chars(sizes: _Sizes) -> Callable[[Any], int]:
    return lambda element: sizes[element].chars


def _find_link_lists(main: Any, sizes: _Sizes) -> set[Any]:
    """Return the parts that are mostly links, unless they are most of the page, as in a table of contents."""
    lists = {
        element
        for element in main.iter(*LIST_TAGS)
        if element in sizes
        and element is not main
        and sizes[element].links >= MIN_LINKS
        and sizes[element].link_chars > MIN_LINK_SHARE * sizes[element].chars
        and not _is_announced(element)
    }
    outer_lists = [element for element in lists if lists.isdisjoint(element.iterancestors())]
    share = sum(sizes[element].chars for element in outer_lists) / max(1, sizes[main].chars)
    return lists if share < MAX_LISTS_SHARE else set()


def _is_announced(element: Any) -> bool:
    """Return whether a list continues the sentence before it, as in "There are samples for:"."""
    before = element.getprevious() if element.tag in ("ul", "ol") else None
    return before is not None and before.tag == "p" and "".join(before.itertext()).rstrip().endswith((":", "："))
