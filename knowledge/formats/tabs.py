"""The labels of tabs, and of what a button unfolds. A page shows tabs in a row above all contents; a text needs each
label before its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from knowledge.formats.html_markdown import iter_texts
from knowledge.formats.main_content import SKIPPED_TAGS, is_title, match_disclosures

MIN_TABS = 2
MAX_LABEL_CHARS = 80
# The question of an answer is longer than what a tab is called.
MAX_QUESTION_CHARS = 200


def find_tab_labels(root: Any) -> dict[Any, str]:
    """Return the label of each element below the root that is the content of a tab, or what a button unfolds.

    Tabs are known by their roles, or as buttons of which one can be chosen: before all contents (Material for MkDocs,
    VitePress), or each before its own (sphinx-design). Takes a time that grows with the page.
    """
    panels_by_tab_id = {panel.get("aria-labelledby"): panel for panel in root.iterfind(".//*[@role='tabpanel']")}
    pairs = [pair for tab_list in root.iterfind(".//*[@role='tablist']") for pair in _match(tab_list, panels_by_tab_id)]
    labels_by_parent: dict[Any, list[Any]] = {}
    for label in root.iter("label"):
        labels_by_parent.setdefault(label.getparent(), []).append(label)
    for parent, labels in labels_by_parent.items():
        pairs += _match_buttons(parent, labels)
    texts = {panel: _read_label(label) for label, panel in match_disclosures(root) if not is_title(label)}
    texts |= {panel: text for label, panel in pairs if len(text := _read_label(label)) <= MAX_LABEL_CHARS}
    return {panel: text for panel, text in texts.items() if text}


def _match(tab_list: Any, panels_by_tab_id: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    tabs = list(tab_list.iterfind(".//*[@role='tab']"))
    panels = [panels_by_tab_id.get(tab.get("id")) if tab.get("id") else None for tab in tabs]
    if None not in panels:
        return zip(tabs, panels, strict=True)
    following = tab_list.getnext()
    if following is not None and following.get("role") != "tabpanel":
        return _match_in_order(tabs, list(islice(following, len(tabs) + 1)))
    return _match_in_order(tabs, list(islice(tab_list.itersiblings(), len(tabs))))


def _match_buttons(parent: Any, labels: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    if not any(map(_is_button, (parent.getprevious(), labels[0].getprevious()))):
        return
    contents = parent.getnext()
    if contents is not None and not _is_button(contents) and len(contents) == len(labels):
        yield from _match_in_order(labels, list(contents))
        return
    for label in labels:
        content = label.getnext()
        if _is_button(label.getprevious()) and content is not None and content.tag == "div":
            yield label, content


def _match_in_order(labels: Sequence[Any], contents: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    is_match = len(labels) == len(contents) >= MIN_TABS
    return zip(labels, contents, strict=True) if is_match else iter(())


def _is_button(element: Any) -> bool:
    return element is not None and element.tag == "input" and element.get("type") == "radio"


def _read_label(label: Any) -> str:
    pieces = iter_texts(label, lambda element: element is not label and element.tag in SKIPPED_TAGS)
    text = " ".join("".join(pieces).split())
    return text if len(text) <= MAX_QUESTION_CHARS else ""
