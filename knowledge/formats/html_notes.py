"""The footnotes of a web page, put where their marks are: a passage has the mark, but seldom the end of the page."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice, takewhile
from typing import Any
from urllib.parse import unquote

from core.markup.inline import MAX_NOTE_CHARS, MAX_NOTE_MARKS
from knowledge.formats.html_markdown import HEADINGS, iter_texts
from knowledge.formats.main_content import SKIPPED_TAGS, is_hidden

# More notes than these are sources that are cited.
MAX_NOTES = 20
MAX_NOTE_PIECES = 50
# So many elements, a mark among them, may have the name to which its note links back.
MAX_MARK_DEPTH = 3
_MARK_TAGS = ("a", "b", "small", "span", "strong", "sup")
_MARK = re.compile(r"\[?(?:\d{1,3}|[a-z*†‡§]{1,2})\]?")
_BRACKETS = re.compile(r"[\[\]()\s]+")
# What is left at the beginning of a note without the link that its number is.
_NUMBER_REST = re.compile(r"(?:\[\s*\]|\([\s,]*\)|[\s.:^])+")
_HOLDERS = ("ol", "ul", "dl", "div", "section", "aside", "footer")


def place_notes(tree: Any) -> None:
    """Put the text of each short footnote in place of its marks, and take it away from where it stands.

    A mark and its note link to each other. Takes a time that grows with the page.
    """
    elements = {element.get("id"): element for element in tree.iterfind(".//*[@id]")}
    links: dict[Any, list[Any]] = {}
    for link in tree.iter("a"):
        note = elements.get(_get_target(link))
        if note is not None and _MARK.fullmatch(_read(link)):
            links.setdefault(note, []).append(link)
    texts = {note: text for note, marks in links.items() if (text := _read_note(note, marks))}
    if len(texts) > MAX_NOTES:
        return
    for note, text in texts.items():
        if any(map(_is_unseen, (note, *note.iterancestors()))):
            continue
        for mark in map(_find_mark, links[note]):
            mark.clear(keep_tail=True)
            mark.tag = "span"
            mark.text = f" ({text})"
        _remove(note)


def _get_target(link: Any) -> str:
    address = link.get("href") or ""
    return unquote(address[1:]) if address.startswith("#") else ""


def _read(element: Any, left_out: Collection[Any] = ()) -> str:
    """Return the words of an element, without some in it; nothing where they are many, for many may ask for them."""
    texts = iter_texts(element, lambda inner: inner in left_out or _is_unseen(inner))
    pieces = list(islice(texts, MAX_NOTE_PIECES + 1))
    text = " ".join("".join(pieces).split())
    return text if len(pieces) <= MAX_NOTE_PIECES and len(text) <= MAX_NOTE_CHARS else ""


def _read_note(note: Any, marks: Sequence[Any]) -> str:
    """Return the text of a footnote; nothing for what is none, or is not to be placed."""
    names = {holder.get("id") for mark in marks[:MAX_NOTE_MARKS] for holder in _get_holders(mark)} - {None}
    inner_links = list(islice(note.iter("a"), MAX_NOTE_PIECES))
    ways_back = [link for link in inner_links if _get_target(link) in names]
    if not ways_back or len(marks) > MAX_NOTE_MARKS or any(mark in inner_links or _is_in_title(mark) for mark in marks):
        return ""
    return _NUMBER_REST.sub("", f" {_read(note, ways_back)}", count=1)


def _get_holders(mark: Any) -> list[Any]:
    """Return the link that a mark is, and what is around it within the line, from inside."""
    ancestors = takewhile(lambda holder: holder.tag in _MARK_TAGS, mark.iterancestors())
    return [mark, *islice(ancestors, MAX_MARK_DEPTH - 1)]


def _is_in_title(mark: Any) -> bool:
    parent = _get_holders(mark)[-1].getparent()
    return parent is not None and parent.tag in HEADINGS


def _is_unseen(element: Any) -> bool:
    return element.tag in SKIPPED_TAGS or is_hidden(element)


def _find_mark(link: Any) -> Any:
    """Return the mark that a link is, with the brackets around it."""
    words = _BRACKETS.sub("", _read(link))
    return next(holder for holder in reversed(_get_holders(link)) if _BRACKETS.sub("", _read(holder)) == words)


def _remove(element: Any) -> None:
    """Take away an element, and what held nothing else but a title."""
    parent = element.getparent()
    while parent is not None:
        element.drop_tree()
        headings = [child for child in parent if child.tag in HEADINGS]
        if parent.tag not in _HOLDERS or len(parent) > MAX_NOTE_PIECES or _has_text(parent, headings):
            return
        element = parent
        parent = element.getparent()


def _has_text(element: Any, left_out: Collection[Any]) -> bool:
    pieces = list(islice(iter_texts(element, left_out.__contains__), MAX_NOTE_PIECES + 1))
    return len(pieces) > MAX_NOTE_PIECES or any(map(str.strip, pieces))
