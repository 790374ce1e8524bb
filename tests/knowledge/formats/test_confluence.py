"""The storage format: macros, panels, links, tasks, characters of HTML, and what is damaged."""

from __future__ import annotations

import pytest

from knowledge.formats.confluence import read_storage


def macro(name: str, body: str = "", **parameters: str) -> str:
    parts = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    return f'<ac:structured-macro ac:name="{name}" ac:schema-version="1">{parts}{body}</ac:structured-macro>'


def rich(text: str) -> str:
    return f"<ac:rich-text-body>{text}</ac:rich-text-body>"


def plain(text: str) -> str:
    return f"<ac:plain-text-body><![CDATA[{text}]]></ac:plain-text-body>"


def test_code_stays_as_it_is() -> None:
    text = read_storage(
        "<p>Run:</p>" + macro("code", plain("if a < b && c:\n    x = '&nbsp;'"), language="py", title="T")
    )
    assert text == "Run:\n\n```py\nif a < b && c:\n    x = '&nbsp;'\n```"
    assert read_storage(macro("noformat", plain("<tag/>"))) == "```\n<tag/>\n```"


@pytest.mark.parametrize("name", ["info", "note", "tip", "warning", "panel", "expand"])
def test_panels_and_expanders_keep_title_and_text(name: str) -> None:
    text = read_storage(macro(name, rich("<p>Mind the <strong>gap</strong>.</p>"), title="Careful", bgColor="#fff"))
    assert "Careful" in text
    assert "Mind the gap." in text
    assert "#fff" not in text
    assert name not in text


def test_macros_of_a_server_leave_nothing() -> None:
    text = read_storage(
        f"<p>A {macro('toc', maxLevel='3')} B</p>{macro('jira', key='X-1')}{macro('status', title='DONE')}"
    )
    assert text.split() == ["A", "B", "DONE"]


def test_what_is_nested_is_read() -> None:
    inner = macro("code", plain("deep()"))
    text = read_storage(macro("expand", rich(macro("info", rich(f"<ul><li>One{inner}</li></ul>")))))
    assert "One" in text
    assert "deep()" in text
    cells = "".join(f"<ac:layout-cell><p>{text}</p></ac:layout-cell>" for text in "LR")
    assert read_storage(f"<ac:layout><ac:layout-section>{cells}</ac:layout-section></ac:layout>") == "L\n\nR"


def test_links_show_their_words_and_people_stay_nameless() -> None:
    link = '<ac:link><ri:page ri:content-title="Set up"/>{}</ac:link>'
    body = "<ac:plain-text-link-body><![CDATA[this <page>]]></ac:plain-text-link-body>"
    text = read_storage(
        f"<p>See {link.format('')} or {link.format(body)}, ask <ac:link><ri:user ri:account-id='42'/></ac:link> "
        'in <a href="https://e.org/x">the chat</a>.</p>'
    )
    assert "See Set up or this" in text
    assert "42" not in text
    assert "the chat" in text


def test_tasks_pictures_and_emoji() -> None:
    state = "<ac:task-id>1</ac:task-id><ac:task-status>incomplete</ac:task-status>"
    task = f"<ac:task>{state}<ac:task-body>Do it</ac:task-body></ac:task>"
    assert read_storage(f"<ac:task-list>{task}</ac:task-list>") == "- Do it"
    picture = '<ac:image ac:alt="Chart"><ri:attachment ri:filename="x.png"/></ac:image>'
    text = read_storage(f'<p>A{picture} <ac:emoticon ac:emoji-fallback="🎉"/></p>')
    assert "Chart" in text
    assert "🎉" in text
    assert "x.png" not in text


def test_characters_of_html_are_read() -> None:
    assert read_storage("<p>a&nbsp;b &mdash; &lt;c&gt; &amp; &bogus;</p>").replace("\xa0", " ").startswith("a b — ")
    assert "& " in read_storage("<p>x &amp; y</p>")


@pytest.mark.parametrize(
    "damaged", ["<p>one<p>two", "<p>one</p></div><p>two</p>", "<ac:x>one", "one & two", "<p>one <![CDATA["]
)
def test_what_is_damaged_is_read_as_far_as_it_goes(damaged: str) -> None:
    assert "one" in read_storage(damaged)


def test_nothing_is_loaded_from_elsewhere() -> None:
    bomb = '<!DOCTYPE p [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y "yyyyy">]><p>a&x;&y;</p>'
    assert "root:" not in read_storage(bomb)
