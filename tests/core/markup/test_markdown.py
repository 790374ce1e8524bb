"""Markdown in the forms that the world writes, as blocks."""

from __future__ import annotations

import pytest

from core.markup.document import Block, to_plain
from core.markup.front_matter import read_title
from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown
from tests.support.growth import Growth, Text, find_growth


def read(text: str) -> str:
    """Return what is written of a document, which reads as the same again."""
    written = write_markdown(read_markdown(text))
    assert write_markdown(read_markdown(written)) == written
    return written


def kinds(text: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in read_markdown(text)]


def labels(text: str) -> list[tuple[str, str]]:
    """Return the label of each tab with what it holds."""
    return [(block.text, block.children[0].text) for block in read_markdown(text) if block.kind == "tab"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("See {ref}`the guide <guide>` and {func}`~click.echo`.", "See the guide and `echo()`."),
        ("Pass `[](int)` [](https://badge.example/x).", "Pass `[](int)` ."),
        ("Read [the page](page.md#top) or [the site](https://x.org).", "Read the page or [the site](https://x.org)."),
        ("A <b>bold</b> <kbd>Ctrl</kbd> word\\_here", "A bold `Ctrl` word\\_here"),
        ("Keep `a<b>` and 1 < 2.", "Keep `a<b>` and 1 < 2."),
        ("It may hold `{start}` and `{end}`.", "It may hold `{start}` and `{end}`."),
        ("[![build](build.svg)](https://ci.org/tarn) Tarn is small.", "Tarn is small."),
        ("Keep **bold**, *this* and ~~that~~.", "Keep **bold**, *this* and ~~that~~."),
        ("Write &lt;div&gt; &amp; \\<b>.", "Write \\<div> & \\<b>."),
        ("Names \\<-> numbers, 1 &lt; 2, \\<**a**", "Names <-> numbers, 1 < 2, <**a**"),
        ("Kon\u00adfi\u00adgu\u00adra\u00adtion", "Konfiguration"),
        (
            "See [the wiki][wiki] or [wiki].\n\n[wiki]: https://w.org",
            "See [the wiki](https://w.org) or [wiki](https://w.org).",
        ),
        ("See [the page][p].\n\n[p]: page.md", "See the page."),
        ("A note[^1] here.", "A note here."),
        ("With version {{ version }} only.", "With version version only."),
        ("Written in\ntwo lines.", "Written in two lines."),
        ("写在\n两行。", "写在两行。"),
        ("A paragraph {: .lead}", "A paragraph"),
        ("`two\nlines`", "`two lines`"),
        ("<https://x.org> and https://y.org", "https://x.org and https://y.org"),
        ("(label)=\nText.", "Text."),
        ("See [the handler][panic.handler] and [`run`][crate::run].", "See the handler and `run`."),
        ("Call [`run`], [`a`][], [a::Run] or [it][`b`]; see [x].", "Call `run`, `a`, a::Run or it; see [x]."),
        (
            "Give [`-v`] or [`x`].\n\n[`x`]: https://x.org",
            "Give [`-v`] or [`x`](https://x.org).",
        ),
        ('See {{man "cargo" 1}}{{~#if "==" x}} [here]({{ "/a/b/" | url }}){{> end}}.', "See cargo here."),
        ("A {{ macro('x') }}word{# no #}, `{{ f(x) }}`.", "A word, `{{ f(x) }}`."),
        ("Read [the start][getting-started], or `[a][b.c]`.", "Read the start, or `[a][b.c]`."),
        ("Use `cp [a][b.c]`, cmd [from][to], rows[i][j.k].", "Use `cp [a][b.c]`, cmd [from][to], rows[i][j.k]."),
        ("Use [weak refs][weakref], [`x()`][x], [sets][set], [bytes][].", "Use weak refs, `x()`, sets, bytes."),
        ("A [note][^1], [a][0] or [b][1][2].", "A [note], [a][0] or [b][1][2]."),
        ("A [RangePattern] is [Some] or [OPTION].\n\n[x]: y.md", "A [RangePattern] is [Some] or [OPTION]."),
        ("For [TypeScript] and [GitHub].", "For [TypeScript] and [GitHub]."),
        (
            'See [a page][], [the site][s].\n\n[a page]: {{< relref "a" >}}\n[s]: https://x.org\n[t]: {% link a.md %}',
            "See a page, [the site](https://x.org).",
        ),
        ("For $$ \\mathbb{P} $$ and $$x_1$$, not $$ or $$.", "For `\\mathbb{P}` and `x_1`, not $$ or $$."),
        ("By {{ page.title | upcase }}, {{ 'a' | t }}, `{{ b | c }}`.", "By page.title, a, `{{ b | c }}`."),
        ("`a::b` is `a::{b}`, and `a::b as c` is short.", "`a::b` is `a::{b}`, and `a::b as c` is short."),
        ("With `open={true}` set, `<Bar>` stays.", "With `open={true}` set, `<Bar>` stays."),
        ("Set `{x}`, then {ref}`the_part`.", "Set `{x}`, then the part."),
        ("Start {{{ .starter }}} with [the {{{ .name }}}](a.md).", "Start starter with the name."),
        ("As {{ $version }} or `{{ .Name }}`.", "As version or `{{ .Name }}`."),
        ('<code>List\\<<a href="https://x.org">Item</a>></code>, \\<b>', "`List<Item>`, \\<b>"),
        ("`` ` `` and `%sh{foo}` as `%sh{foo}` or `x`", "`` ` `` and `%sh{foo}` as `%sh{foo}` or `x`"),
        ("``a`b`` {{ x }} ``{{ c }}`` :rocket: ``:x:``", "``a`b`` x `{{ c }}` 🚀 `:x:`"),
        ("in {math}`\\mathbb{C}` and {math}`P=IV`", "in `\\mathbb{C}` and P=IV"),
        ("The pairs <code>[]``</code> and <samp>a ` b</samp>", "The pairs ``` []`` ``` and ``a ` b``"),
        ("<kbd><kbd>Ctrl</kbd>+<kbd>C</kbd></kbd> or <code>`x`</code> and <code>y", "`Ctrl+C` or `x` and y"),
        ("[<code>x</code> :rocket:](https://x.example/a)", "[`x` 🚀](https://x.example/a)"),
        ("A <code>\\*args</code> and \\*this.", "A `*args` and \\*this."),
        ('<code class="x">**static** **of**(a): [B](/b)</code>', "`static of(a): B`"),
        ("<code>a.map { _.b } filter { _.c }</code>", "`a.map { _.b } filter { _.c }`"),
        ("See {class}`~@Result`, {func}`~a.b` and {file}`~/.c`.", "See `@Result`, `b()` and `~/.c`."),
        ("See {class}`~.Result` and {meth}`~.a.b`.", "See `Result` and `b()`."),
        ("See {ref}`other-part`, {doc}`/guide/first_steps`, [](#Run.stop).", "See other part, first steps, Run.stop."),
        ("A {class}`Viewer<napari.Viewer>` and {ref}`it <a>`.", "A `Viewer` and it."),
        ("See {ref}`docs/log.md <log>`, {func}`.run <a.b>`, {pr}`12``.", "See docs/log.md, `.run`, #12`."),
        (
            "See {any}`a.solve`, {any}`the way <a.solve>` or {any}`run(...)<r>`.",
            "See `a.solve`, `the way` or `run(...)`.",
        ),
        ("Set {attr}`.Run.name` in {file}`.env`.", "Set `Run.name` in `.env`."),
        ("Pass :tooltip[the key]{open} and `:a[b]`, :see[x](y).", "Pass the key and `:a[b]`, :seex."),
        ("{{#title Guide}} The {{%segment outline}} guide.", "The guide."),
        ("% a comment\nText.", "Text."),
        ("See [[Other Page|that page]], ![[plan.png]] [[Home]] and `[[a]]`.", "See that page, Home and `[[a]]`."),
        ("A ==marked== word, if a == b == c.", "A marked word, if a == b == c."),
        ("Press ++ctrl+c++ in C++ or C++; {++new++} {==kept==}.", "Press `ctrl+c` in C++ or C++; new kept."),
        ("[[toc]]\n\n[TOC]\n\nText.", "Text."),
        ("*[HTML]: Hyper Text\n*[CSS]: Sheets\n\nThe HTML page.", "The HTML page."),
        ("{: .note }\nA note.", "A note."),
        ('<<< @/snippets/a.js\n\n--8<-- "a.md"\n\nText.', "Text."),
        (f"A ![plan](data:image/png;base64,{'iVBORw0KGgo' * 3000}) picture.", "A plan picture."),
        ("{lineno-start=1}\nText.", "Text."),
        ("{.bg-primary}\nA [span]{#id .bg}, `code`{.lit}, `a){.b}` and {a}.", "A span, `code`, `a){.b}` and {a}."),
        ("::changelog\n\n::video{id=a}\n\nText.", "Text."),
        ("In \\(x^2\\) or $\\frac{a}{b}*c*$, not \\(this\\).", "In `x^2` or `\\frac{a}{b}*c*`, not (this)."),
        ("It is **$25**<br/>or $25 + $3, $A_B/$C.", "It is **$25**\nor $25 + $3, $A_B/$C."),
        ("[Python {{ version }}](https://p.org)", "[Python version](https://p.org)"),
        ("$x_1$, $a_{ij}$, $10^5$, $|v|_2$", "`x_1`, `a_{ij}`, `10^5`, `|v|_2`"),
        ("Set $HOME_DIR and $PATH, or $user_id$.", "Set $HOME_DIR and $PATH, or $user_id$."),
        ("It is $1,000 per user_id (or US$).", "It is $1,000 per user_id (or US$)."),
        ("${SRC}_old/${NAME} or $(TOP)_x/$(NAME)", "${SRC}_old/${NAME} or $(TOP)_x/$(NAME)"),
        ("$5 for **all** of [it](x.md), ${A}_$", "$5 for **all** of it, ${A}_$"),
        ("It is $E=mc^2$ of $a$b.", "It is `E=mc^2` of $a$b."),
        ("From $HOME/$USER for $5 or $A and `$x^2$`.", "From $HOME/$USER for $5 or $A and `$x^2$`."),
    ],
)
def test_inline_markup_that_a_chat_does_not_render_goes(markup: str, text: str) -> None:
    [block] = read_markdown(markup)
    assert block.text == text


@pytest.mark.parametrize(
    "heading", ["## Rules [¶](#rules)", '## Rules <a href="#rules">¶</a>', '<h2>Rules <a href="#rules">¶</a></h2>']
)
def test_the_sign_that_links_to_a_heading_is_no_part_of_it(heading: str) -> None:
    assert kinds(f"{heading}\n\nText.") == [("heading", "Rules"), ("paragraph", "Text.")]


@pytest.mark.parametrize(
    "link", ["[Try it]({})", '<a href="{}">Try it</a>', "<p><a href='{}'>Try it</a></p>", "[Try it][a]\n\n[a]: {}"]
)
def test_an_address_that_holds_data_is_no_text(link: str) -> None:
    address = f"https://a.example/#{'eNqVVMtu2zAQ' * 20}"
    assert read(link.format(address)) == "Try it"
    assert len(address) > 250


def test_references_show_the_title_of_a_part_of_the_page() -> None:
    text = "(start)=\n\n# The *start*\n\nSee {ref}`start`, {ref}`here <start>`, {any}`start` and [](#start)."
    assert read_markdown(text)[-1].text == "See The start, here, The start and The start."
    assert read_markdown(f"{text} To {{ref}}`start <start>`.")[-1].text.endswith("To start.")


def test_braces_with_a_value_are_text() -> None:
    for text in ("The pattern is {key=value}", "The route is {id=int}", "f(x){y=2}"):
        assert write_markdown(read_markdown(text)) == text


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("```rust\n# // hidden\n#\n#[derive(Debug)]\n##[doc]\nrun();\n```", "#[derive(Debug)]\n#[doc]\nrun();"),
        ("```toml\n{{#include ../missing.toml}}\na = 1\n```", "a = 1"),
        ("```{parsed-literal}\nGET [/users](rest-users)\n  *now*\n```", "GET /users\n  now"),
        ("```{code-cell}\n:tags: [remove-input]\n\nimport os\n```", None),
    ],
)
def test_code_is_what_the_page_shows(code: str, shown: str | None) -> None:
    assert [block.text for block in read_markdown(code)] == [text for text in [shown] if text is not None]


def test_breaks_are_lines_also_when_they_are_read_again() -> None:
    blocks = read_markdown("one  \ntwo\\\nthree<br>four\n\n<div>five<br>six\nseven</div>")
    assert [block.text for block in blocks] == ["one\ntwo\nthree\nfour", "five\nsix seven"]
    again = read_markdown(write_markdown(blocks))
    assert [block.text for block in again] == [block.text for block in blocks]


@pytest.mark.parametrize("text", ["<kbd>3</kbd><kbd>d</kbd>", "<p><kbd>3</kbd><kbd>d</kbd></p>"])
def test_keys_beside_each_other_stay_apart(text: str) -> None:
    assert write_markdown(read_markdown(text)) == "`3` `d`"


@pytest.mark.parametrize("mark", ["- ", "> ", "1. "])
def test_what_is_nested_too_deep_keeps_its_text(mark: str) -> None:
    indent = "" if mark == "> " else " " * len(mark)
    lines = [(mark * number if mark == "> " else indent * number) + f"{mark}word{number}" for number in range(40)]
    text = write_markdown(read_markdown("\n".join([*lines, "", "After."])))
    assert [word for word in (f"word{number}" for number in range(40)) if word not in text] == []
    assert text.endswith("\n\nAfter.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<Accordion title="Keys">\n    - `A` one\n    - `B` two\n</Accordion>', "**Keys**\n\n- `A` one\n- `B` two"),
        ("1. Copy:\n        - the key\n        - the name\n2. Save", "1. Copy:\n   - the key\n   - the name\n2. Save"),
        ('<Callout type="info">\n  Mind it.\n</Callout>\n\n# Next', "> **Info**\n>\n> Mind it.\n\n# Next"),
        ("<Step>\n# Go\n    Then:\n    1. Log in.\n    2. Go on.\n</Step>", "# Go\n\nThen:\n\n1. Log in.\n2. Go on."),
    ],
)
def test_what_is_indented_in_a_component_or_an_item_is_read(text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text)) == expected


def test_code_with_attributes_keeps_its_language() -> None:
    for info in ("py", "{.py}", "{ .py .copy }"):
        [code] = read_markdown(f"```{info}\nx = 1\n```")
        assert (code.kind, code.text, code.language) == ("code", "x = 1", "py")
    for info in ('hl_lines="1"', "title=py", '{ hl_lines="1" }'):
        [code] = read_markdown(f"```{info}\nx = 1\n```")
        assert (code.text, code.language) == ("x = 1", "")


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ('py title="src/a.py" {1}', "**src/a.py**\n\n```py"),
        ("{ .py .copy title='My file' }", "**My file**\n\n```py"),
        ('py filename="src/__init__.py"', "**`src/__init__.py`**\n\n```py"),
        ("py [a.py] subtitle=b {1}", "**a.py**\n\n```py"),
        ("py subtitle=b {1} /(x)[^(]/", "```py"),
    ],
)
def test_the_title_of_code_stands_above_it(info: str, shown: str) -> None:
    assert read(f"```{info}\nx = 1\n```") == f"{shown}\nx = 1\n```"


def test_code_keeps_its_language_and_its_lines() -> None:
    blocks = read_markdown("Text.\n\n```py title=x {1}\na\n\n b\n```\n\n~~~\n```\nc\n```\n~~~\n\n    d\n")
    assert [(block.text, block.language, block.start_line, block.end_line) for block in blocks[1:]] == [
        ("a\n\n b", "py", 3, 7),
        ("```\nc\n```", "", 9, 13),
        ("d", "", 15, 15),
    ]


def test_lists_tables_and_quotations_are_trees() -> None:
    text = "3. a\n   - b\n4. c\n\n   ```\n   d\n   ```\n\n| A | B |\n|---|---|\n| 1 | x\\|y |\n\n> q\n> - r\n\n"
    text += "Term\n: What it is.\n"
    numbered, table, quotation, definition = read_markdown(text)
    assert (numbered.level, [item.text for item in numbered.children]) == (3, ["a", "c"])
    assert numbered.children[0].children[0].children[0].text == "b"
    assert numbered.children[1].children[0].kind == "code"
    assert (table.header, table.rows) == (("A", "B"), (("1", "x|y"),))
    assert [child.kind for child in quotation.children] == ["paragraph", "list"]
    assert (definition.text, definition.children[0].text) == ("Term", "What it is.")


@pytest.mark.parametrize("code", ["{ref}`a`", "```{note} b\n```", "a_b_ *c* [d](e)"])
def test_code_in_a_cell_is_as_it_stands(code: str) -> None:
    fence = "\n    ".join(["````", *code.split("\n"), "````"])
    [table] = read_markdown(f"`````{{list-table}}\n* - A\n  - B\n* - {fence}\n  - b\n`````")
    assert table.rows[0][0].strip("`\n ") == code.strip("`\n ")
    [page_table] = read_markdown(f"<table><tr><td><pre>{code}</pre></td></tr></table>")
    assert page_table.rows[0][0].strip("`\n ") == code.strip("`\n ")


@pytest.mark.parametrize("heading", ["##### Build it", "# Build it", "Build it\n   -----"])
def test_a_heading_is_the_text_of_its_item(heading: str) -> None:
    assert read(f"1. {heading}\n\n   Run it.\n2. Next") == "1. Build it\n\n   Run it.\n\n2. Next"


def test_every_block_has_its_lines() -> None:
    text = "---\ntitle: T\n---\n\n# H\n\na\nb\n\n- c\n- d\n\n<!-- x\ny -->\n\n:::note\ne\n:::\n\nf\n"
    assert [(block.kind, block.start_line, block.end_line) for block in read_markdown(text)] == [
        ("heading", 5, 5),
        ("paragraph", 7, 8),
        ("list", 10, 11),
        ("admonition", 17, 18),
        ("paragraph", 20, 20),
    ]


BAD = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"One {BAD}two", "One two"),
        (f"{BAD}x", "x"),
        ("a <svg onload=alert(2)><path/></svg> b", "a b"),
        ("a <img src=x onerror=alert(3)> b", "a b"),
        ('<div title=">" onclick="evil()">x</div>', "x"),
        ("<a href='javascript:evil()'>x</a>", "x"),
        ('<a href="&#106;ava\tscript:evil()">x</a>', "x"),
        ('<video controls>\n<source src="a.mp4">\nToo old.\n</video>\n\nx', "x"),
        ('<p>a <audio src="a.mp3">Too old: <a href="a.mp3">load it</a></audio>b</p>', "a b"),
        ("a <video src=b>Too old.</video> c <video src=d /> e", "a c e"),
        ("<iframe srcdoc='<b onclick=evil()>'>y</iframe>\n\nx", "x"),
        ("[a](javascript:alert(4)) b [c](d.md)", "a b c"),
        ("[a](java&#115;cript:x) b ![b](data:text/html,x)", "a b"),
        ("[a](JavaScript:x)", "a"),
        (f"- a\n\n    {BAD}b", "- a\n\n  b"),
        (f"> {BAD}b", "> b"),
        (f"<!--\n```\n-->\n{BAD}b", "b"),
        (f"```html\n{BAD}\n```", f"```html\n{BAD}\n```"),
        (f"Use `{BAD}` here.", f"Use `{BAD}` here."),
        (f"Code:\n\n    {BAD}", f"Code:\n\n```\n{BAD}\n```"),
        (f"> ```html\n> {BAD}\n> ```", f"> ```html\n> {BAD}\n> ```"),
    ],
)
def test_what_a_browser_would_run_goes_and_code_stays(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Vec<String> or Map<K, V>", "Vec\\<String> or Map<K, V>"),
        ("Run <name> in <your-folder>.", "Run \\<name> in \\<your-folder>."),
        ("<T extends Handler> is a type.", "\\<T extends Handler> is a type."),
        ("<Highlight>Green</Highlight> is a colour.", "Green is a colour."),
    ],
)
def test_what_only_looks_like_a_tag_is_text(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "front_matter",
    ["---\n title: Guide\n tags: [a]\n---", "---\ntitle: 'Guide'\ntags: [a]\n---", '+++\ntitle = "Guide"\n+++'],
)
def test_front_matter_gives_the_heading_where_there_is_none(front_matter: str) -> None:
    assert kinds(f"{front_matter}\n\nText.") == [("heading", "Guide"), ("paragraph", "Text.")]
    assert kinds(f"\n{front_matter}\n\n# Own\n\nText.")[0] == ("heading", "Own")
    assert kinds("---\n\nText.\n\n---")[1] == ("paragraph", "Text.")
    assert kinds(f"{front_matter}\n\nText.\n\n# Guide\n\nMore.")[0] == ("paragraph", "Text.")


@pytest.mark.parametrize(
    ("front_matter", "title"),
    [
        ("title:\n  How to count\n  the spans\ndate: 1", "How to count the spans"),
        ("title: >-\n  Ports: all\n  of them", "Ports: all of them"),
        ("title: 'How to\n  count'", "How to count"),
        ("title:\n  en: Ports\n  de: Anschlüsse", ""),
    ],
)
def test_a_title_may_take_several_lines(front_matter: str, title: str) -> None:
    headings = [("heading", title)] if title else []
    assert kinds(f"---\n{front_matter}\n---\n\nText.") == [*headings, ("paragraph", "Text.")]


@pytest.mark.parametrize("anchor", ["{#why-keys}", "{/*why-keys*/}", "{ #why .x }", "[#why-keys]"])
def test_the_anchor_of_a_heading_is_no_part_of_it(anchor: str) -> None:
    assert kinds(f"## Why keys? {anchor}") == [("heading", "Why keys?")]
    assert kinds("## The set {#1}, again") == [("heading", "The set {#1}, again")]
    assert kinds("## The set [#1]") == [("heading", "The set [#1]")]


@pytest.mark.parametrize(
    "comment",
    [
        "<!-- hidden -->",
        "<!--\nhidden\n\nhidden\n-->",
        "Text <!-- hidden\n\nhidden --> goes on.",
        "- item\n\n  <!-- hidden -->",
        "<Foo/>\n\n{/* hidden */}",
        "<Foo/>\n\nText {/* hidden\n\nhidden */} goes on.",
        "[//]: # (hidden)",
        "[hidden]: <> (hidden)",
        "Text %%hidden%% goes on, 100%% sure.",
        "%%\nhidden\n\nhidden\n%%",
        "Text {>>hidden<<} and {--hidden--}.",
        "{% comment %}\nhidden\n\n```\nhidden\n{% endcomment %}",
        "Text {%- comment -%} hidden {%- endcomment -%} goes on.",
        "{{< comment >}}\nhidden\n{{< /comment >}}",
    ],
)
def test_a_comment_is_no_content(comment: str) -> None:
    assert "hidden" not in read(f"Before.\n\n{comment}\n\nAfter.")
    assert "After." in read(f"Before.\n\n{comment}\n\nAfter.")


def test_a_comment_in_code_is_code() -> None:
    for code in ("```\n<!-- x -->\n```", "    <!-- x -->", "`<!-- x -->`", "- a\n  ```\n  <!-- x -->\n  ```"):
        assert "<!-- x -->" in read(f"Before:\n\n{code}\n")


def test_html_is_read_as_what_it_shows() -> None:
    text = (
        '<h1 align="center">Tarn</h1>\n\n<p align="center">\n<img src="x.svg">\nIt is <code>small</code>, see '
        '<a href="https://x.org">here</a>.\n</p>\n\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n\n'
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>\n\n<script>\nevil()\n</script>\n\n"
        "<style>p {}</style>\n<div>\n\nMarkdown *here*.\n\n</div>\n"
    )
    assert read(text) == (
        "# Tarn\n\nIt is `small`, see [here](https://x.org).\n\n- one\n- two\n\n| A | B |\n|---|---|\n| 1 | 2 |\n\n"
        "Markdown *here*."
    )


def test_html_for_code_is_code() -> None:
    text = '<pre><code class="cmd bash">sudo apt install tarn &amp;&amp; tarn run\ntarn stop</code></pre>\nRead on.'
    assert kinds(text) == [("code", "sudo apt install tarn && tarn run\ntarn stop"), ("paragraph", "Read on.")]
    assert kinds("<pre>\ntarn run") == [("code", "tarn run")]
    assert kinds("<prefix> is a word.") == [("paragraph", "\\<prefix> is a word.")]
    assert kinds(f"<pre>tarn &#{'1' * 5000};run</pre>") == [("code", "tarn run")]
    fence = read("<pre><code>```\ncode\n```\nmore</code></pre>")
    assert fence == "````\n```\ncode\n```\nmore\n````"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("Done :white_check_mark: and :+1:", "Done ✅ and 👍"),
        (
            "At 10:30:45, `:key:` of std::key::x, :nothing:",
            "At 10:30:45, `:key:` of std::key::x, :nothing:",
        ),
        ("[:material-download: Get it](https://x.org){ .md-button }", "[Get it](https://x.org)"),
        ("- :octicons-tag-24:{ .lg .middle } 1.2", "- 1.2"),
        (":fontawesome-brands-github:\n\nText.", "Text."),
        ("# Go :rocket:", "# Go 🚀"),
        ("<p>Go :rocket: with <code>:rocket:</code></p>", "Go 🚀 with `:rocket:`"),
        ("{octicon}`tag;1em` Use {fas}`spinner` 1.2 {material-regular}`x`.", "Use 1.2 ."),
        ('The button (<i class="fas fa-play"></i>) runs it (:material-play:).', "The button runs it."),
        ("Call f() (:material-play:).", "Call f() ()."),
    ],
)
def test_emoji_are_shown_and_icons_left_out(markup: str, text: str) -> None:
    assert read(markup) == text


def test_a_mark_in_a_cell_says_something() -> None:
    [table] = read_markdown("| a | b |\n|---|---|\n| :heavy_check_mark: | :x: |")
    assert table.rows == (("✔️", "❌"),)


def test_details_keep_their_summary() -> None:
    text = "<details>\n<summary>How do I <b>stop</b> it?</summary>\n\nRun `stop`.\n\n</details>\n\nAfter."
    assert read(text) == "**How do I stop it?**\n\nRun `stop`.\n\nAfter."


@pytest.mark.parametrize(
    "note",
    [
        "> [!WARNING]\n> Stop it.",
        ":::warning\nStop it.\n:::",
        "::: warning\nStop it.\n:::",
        ":::{warning}\nStop it.\n:::",
        "```{warning}\nStop it.\n```",
        "```{warning} Stop it.\n```",
        "```{warning}\n:class: x\n\nStop it.\n```",
        "!!! warning\n    Stop it.",
        "??? warning\n    Stop it.",
        "<Warning>\nStop it.\n</Warning>",
        "<Warning>Stop it.</Warning>",
        '<Admonition type="warning">\n  Stop it.\n</Admonition>',
        "{% warning %}\nStop it.\n{% endwarning %}",
        "{{< warning >}}\nStop it.\n{{< /warning >}}",
    ],
)
def test_an_admonition_has_its_kind_as_title(note: str) -> None:
    [block] = read_markdown(note)
    assert (block.kind, block.text) == ("admonition", "Warning")
    assert [child.text for child in block.children] == ["Stop it."]


@pytest.mark.parametrize(
    "note",
    [
        "> [!WARNING] Root needed\n> Stop it.",
        ":::warning[Root needed]\nStop it.\n:::",
        "::: warning Root needed\nStop it.\n:::",
        "```{admonition} Root needed\nStop it.\n```",
        '!!! warning "Root needed"\n\n    Stop it.',
        '<Callout type="warning" title="Root needed">\nStop it.\n</Callout>',
        '::: {.callout-warning title="Root needed"}\nStop it.\n:::',
    ],
)
def test_an_admonition_keeps_its_title(note: str) -> None:
    [block] = read_markdown(note)
    assert (block.kind, block.text, block.children[0].text) == ("admonition", "Root needed", "Stop it.")


@pytest.mark.parametrize("kind", ["EDITION-2024", "since_2", "Edition-2024"])
def test_an_alert_of_a_kind_of_its_own_is_one(kind: str) -> None:
    assert read(f"> [!{kind}]\n> It is new.") == f"> **{kind.capitalize()}**\n>\n> It is new."


@pytest.mark.parametrize(
    "tabs",
    [
        '<Tabs>\n  <Tab title="npm">\n```sh\nnpm i\n```\n  </Tab>\n  <Tab title="pip">\n'
        "```sh\npip i\n```\n  </Tab>\n</Tabs>",
        '<Tabs>\n  <TabItem value="a" label="npm">\n\n  ```sh\n  npm i\n  ```\n\n  </TabItem>\n'
        '  <TabItem value="b" label={"pip"}>\n\n  ```sh\n  pip i\n  ```\n\n  </TabItem>\n</Tabs>',
        "<Tabs defaultValue='a' values={[\n  {label: 'npm', value: 'a'},\n  {label: 'pip', value: 'b'},\n]}>\n"
        '<TabItem value="a">\n\n```sh\nnpm i\n```\n\n</TabItem>\n'
        "<TabItem value='b'>\n\n```sh\npip i\n```\n\n</TabItem>\n</Tabs>",
        "<Tabs items={['npm', 'pip']}>\n<Tabs.Tab>\n```sh\nnpm i\n```\n</Tabs.Tab>\n<Tabs.Tab>\n"
        "```sh\npip i\n```\n</Tabs.Tab>\n</Tabs>",
        "<CodeGroup>\n```sh npm\nnpm i\n```\n\n```sh pip\npip i\n```\n</CodeGroup>",
        '<CodeGroup>\n```sh title="npm"\nnpm i\n```\n\n```sh title="pip"\npip i\n```\n</CodeGroup>',
        '<SimpleTab>\n\n<div label="npm" value="a">\n\n```sh\nnpm i\n```\n\n</div>\n<div label="pip">\n\n```sh\npip i\n'
        "```\n\n</div>\n</SimpleTab>",
        "::: code-group\n```sh [npm]\nnpm i\n```\n\n```sh [pip]\npip i\n```\n:::",
        "::: tabs\n== npm\n```sh\nnpm i\n```\n== pip\n```sh\npip i\n```\n:::",
        '=== "npm"\n\n    ```sh\n    npm i\n    ```\n\n=== "pip"\n\n    ```sh\n    pip i\n    ```\n',
        "````{tab-set}\n```{tab-item} npm\n    npm i\n```\n```{tab-item} pip\n    pip i\n```\n````",
        "````{tabs}\n```{group-tab} npm\n    npm i\n```\n```{group-tab} pip\n    pip i\n```\n````",
        "::::{tab-set}\n:::{tab-item} npm\n```sh\nnpm i\n```\n:::\n:::{tab-item} pip\n```sh\npip i\n```\n:::\n::::",
        '{% tabs %}\n{% tab title="npm" %}\n```sh\nnpm i\n```\n{% endtab %}\n{% tab title="pip" %}\n'
        "```sh\npip i\n```\n{% endtab %}\n{% endtabs %}",
        '{{< tabs >}}\n{{< tab name="npm" >}}\n```sh\nnpm i\n```\n{{< /tab >}}\n{{< tab "pip" >}}\n'
        "```sh\npip i\n```\n{{< /tab >}}\n{{< /tabs >}}",
    ],
)
def test_tabs_keep_their_labels(tabs: str) -> None:
    assert labels(tabs) == [("npm", "npm i"), ("pip", "pip i")]
    assert len(read_markdown(tabs)) == 2


MDX = """\
/* what shows it */
// of the theme
import Tabs from '@theme/Tabs';
/* what says it */
import {
  Note,

  Since
} from '@site/src/components';
export const toc = [{value: 'x', id: 'y'}];

export const Highlight = ({children, color}) => (
  <span style={{backgroundColor: color}}>

    {children}
  </span>
);

# Install

<Since v="3.2.5" />

The value is {props.version} here.{" "}<Highlight color="#25c2a0">Green</Highlight> is *default*.

<Cards>
  <Card title="SNS" href="/sns">Learn how to use SNS.</Card>
  <Card title="Quick start" description="Five minutes." />
</Cards>

<Steps>
    <Step>
        ## Start it

        Run the command:

        ```bash
        npm start
          two
        ```

        - one
          - two
    </Step>
</Steps>

```js
import x from 'y';
export const z = <Tab/>;
```
"""


def test_mdx_is_read_without_its_script() -> None:
    assert read(MDX) == (
        "# Install\n\nThe value is version here. Green is *default*.\n\n**SNS**: Learn how to use SNS.\n\n"
        "**Quick start**: Five minutes.\n\n## Start it\n\nRun the command:\n\n```bash\nnpm start\n  two\n```\n\n"
        "- one\n  - two\n\n```js\nimport x from 'y';\nexport const z = <Tab/>;\n```"
    )
    [code] = [block for block in read_markdown(MDX) if block.language == "bash"]
    assert (code.start_line, code.end_line) == (36, 39)


@pytest.mark.parametrize(
    ("component", "shown"),
    [
        (
            '<ParamField path="limit" type="integer" default="10">\nHow many.\n</ParamField>',
            "**limit (path, integer, default: 10)**\n\nHow many.",
        ),
        (
            '<ResponseField name="a" type="string | { light: string }" required>\nIt is `b`.\n</ResponseField>',
            "**a (string | { light: string }, required)**\n\nIt is `b`.",
        ),
        (
            '<ParamField query="q" required={false} placeholder="required">\nWhat.\n</ParamField>',
            "**q (query)**\n\nWhat.",
        ),
        (
            '<Run\n  npm="cd a\n    npm i"\n  yarn="cd a\n    yarn"\n/>',
            "**npm**\n\n```bash\ncd a\nnpm i\n```\n\n**yarn**\n\n```bash\ncd a\nyarn\n```",
        ),
        ('<Callout type="none">\nMind it.\n</Callout>', "> Mind it."),
        ('<Callout type="warn">\nMind it.\n</Callout>', "> **Warning**\n>\n> Mind it."),
        (
            "It is `'a'{:js}`, `<A b={c} />{:jsx}` and `d{:.entity.name}`, no `{:}`.",
            "It is `'a'`, `<A b={c} />` and `d`, no `{:}`.",
        ),
        ("<A />\n\nSo $a=\\sqrt{b^2 + c^2}$, not $5 for {d} or $6.", "So `a=\\sqrt{b^2 + c^2}`, not $5 for d or $6."),
        ("<Box>\n  <a\n    href='b'\n  >\n    Text\n  </a>\n</Box>", "Text"),
        ("## Set up [step] [#a-b]\n\n### Part [!toc]", "## Set up\n\n### Part"),
        (
            "```package-install\na b\n```\n\n```package-install\nnpx c\n```",
            "```bash\nnpm i a b\n```\n\n```bash\nnpx c\n```",
        ),
        ("Text.\n\n<include>.a.mdx</include>", "Text."),
        ("A:\n\n |\n--- | ---\nb |\nc | d", "A:\n\n- b\n- c: d"),
        (
            "```ts\n// read it [!code highlight]\na; // [!code --] for c\n```",
            "```diff\n  // read it\n- a; // for c\n```",
        ),
        ("Text <%= partial 'a' %> here.\n\n<% if a > 1 %>\n\nB `<%= c %>`.", "Text here.\n\nB `<%= c %>`."),
        ("<A />\n\n$$\nx=\\frac{a}{b}\n$$", "```math\nx=\\frac{a}{b}\n```"),
        ('<Frame caption="The plan">\n<img src="a.png" />\n</Frame>', "The plan"),
        ("<Box>\n<p>\n  All of\n  [the terms](./terms.mdx).\n</p>\n</Box>", "All of the terms."),
        ('<Update label="2024-10-11" description="v0.1">\nNew.\n</Update>', "**2024-10-11**\n\nv0.1\n\nNew."),
        (
            "<Cards items={[{title: 'Install', href: '/i', description: 'How to'}, {title: \"Run\", text: 'Now'}]} />",
            "**Install**: How to\n\n**Run**: Now",
        ),
        (
            '<Types name="Run" type={{ "id": {"description": "", "type": "string"},\n'
            "  size: { text: 'How big', type: 'int' } }} />",
            "| Prop | Type | Description |\n|---|---|---|\n| `id` | `string` |  |\n| `size` | `int` | How big |",
        ),
        (
            '<Types type={{ "a": { "text": "As \\"b\\"\\nor c", "type": "d" } }} />',
            '| Prop | Type | Description |\n|---|---|---|\n| `a` | `d` | As "b" or c |',
        ),
        (
            '<Files>\n  <Folder name="app" open>\n    <Folder name="a_b">\n      <File name="c.ts" />\n    </Folder>\n'
            '    <File name="d.ts" />\n  </Folder>\n</Files>',
            "- app\n  - a_b\n    - c.ts\n  - d.ts",
        ),
        (
            '<Note>Shown in the <Link to="/a">{`<Box />`}</Link>.</Note>\n\n<Link>\nText.\n</Link>',
            "> **Note**\n>\n> Shown in the \\<Box />.\n\nText.",
        ),
        (
            "<Props data={{ 'aria-label': { type: 'string', description: 'What is read' } }} />",
            "| Prop | Type | Description |\n|---|---|---|\n| `aria-label` | `string` | What is read |",
        ),
        (
            "1. On:\n\n   <Types type={{\n  on: { type: 'bool', default: 'no', description: 'Is <T>' },\n  hours: {\n"
            "    type: '{ start: string; }[]',\n    description: \"It's (9-12)\",\n  },\n"
            '  "data": { "description": "More", "type": "{ [key]: any } | null" } }} />',
            "1. On:\n\n   | Prop | Type | Default | Description |\n   |---|---|---|---|\n"
            "   | `on` | `bool` | `no` | Is \\<T> |\n   | `hours` | `{ start: string; }[]` |  | It's (9-12) |\n"
            "   | `data` | `{ [key]: any } \\| null` |  | More |",
        ),
        ("<Page operations={[{'path': '/v1/a/{id}', 'method': 'get'}]} />\n\nText.", "`GET /v1/a/{id}`\n\nText."),
        (
            "export const year = 2024;\nexport const name: string = 'Rocket';\n\nIn {year} and {1.5}: {name}, {other}.",
            "In 2024 and 1.5: Rocket, other.",
        ),
        ("<Gap />\n\nA <code>{`{ a: `}[B](/b){`; c: d }`}</code>.", "A `{ a: B; c: d }`."),
        ("- <Tip>Read **it**.</Tip>\n- Next", "- > **Tip**\n  >\n  > Read **it**.\n\n- Next"),
        ("<FileTree>\n- src\n  - a.ts\n- b.ts\n</FileTree>", "- src\n  - a.ts\n- b.ts"),
        ('<Code code={`a\nb`} lang="js" title="x.js" />', "**x.js**\n\n```js\na\nb\n```"),
        ("Of type:\n\n---type-table---\n../types/a.ts#Filter\n---end---\n\nText.", "Of type:\n\nText."),
        ("<Grid columns={{ sm: { span: 2 } }} size={{ lg: { width: 'x' } }} />\n\nText.", "Text."),
        ('<Box style={{color: "red"}} title="Hot">\nIt is.\n</Box>', "**Hot**\n\nIt is."),
        ('{% include note.html content="Mind the gap." %}', "Mind the gap."),
        ('{{< figure src="a.png" caption="The plan" >}}', "The plan"),
        ('{{< relref "a.md" >}}\n\nText.', "Text."),
        (
            'See [it](https://a.example/b){:target="_blank"} or [a](b.md){target=blank} of {x}.',
            "See [it](https://a.example/b) or a of {x}.",
        ),
        ('{{< gallery match="a/*"\n    order="desc"\n    last="yes" >}}\n\nText.', "Text."),
        ('A.\n\n{% include "a.html"\n   with="b" %}\n\nText.', "A.\n\nText."),
        ('{{% alert title="Mind"\n  color="red" %}}\nStop.\n{{% /alert %}}\n', "> **Mind**\n>\n> Stop."),
        ('<A>\n\t- <Badge text="One < 2" />\n\t- <Badge text="Two" />\n</A>', "- One < 2\n- Two"),
        ("One---two --- <b>three</b> `a---b` ---- --c", "One—two — three `a---b` ---- --c"),
        (
            '```mdx-code-block\n<Tabs>\n<TabItem value="Go">\n```\n\n```go\na()\n```\n\n'
            "```mdx-code-block\n</TabItem>\n</Tabs>\n```",
            "**Go**\n\n```go\na()\n```",
        ),
        (
            "````mdx-code-block\n<Tabs>\n<TabItem label='Go'>\n\n1. Run:\n\n   ```sh\n   go\n   ```\n\n"
            "```mdx-code-block\n   <Term />\n```\n\n2. Stop.\n\n</TabItem>\n</Tabs>\n````\n\nEnd.",
            "**Go**\n\n1. Run:\n\n   ```sh\n   go\n   ```\n\n2. Stop.\n\nEnd.",
        ),
        ("~~~mdx-code-block\n<Box>\nText.\n</Box>\n~~~", "Text."),
        (
            'Run:\n\n<CodeBlock className="language-sh">{`cat << EOF\n  a: \\`b\\`\nEOF`}</CodeBlock>\n\nText.',
            "Run:\n\n```sh\ncat << EOF\n  a: `b`\nEOF\n```\n\nText.",
        ),
        (
            "1. A\n\n   <Code lang='js'>\n     {`a()\nb()`}\n   </Code>\n\n2. B",
            "1. A\n\n   ```js\n   a()\n   b()\n   ```\n\n2. B",
        ),
        ("<Code>{`\\`\\`\\`\\`\\`\na`}</Code>\n\n<Box />", "``````\n`````\na\n``````"),
        ("<CodeBlock>{`a`}</CodeBlock>\n\n<Box>\n{`b`}\n</Box>", "```\na\n```\n\nb"),
        ('<Card title="A <B/> `<c>`" description="Use <B/>." />', "**A \\<B/> `<c>`**: Use \\<B/>."),
        ("<Box>\nText.\n</Box>\n\n## The \\<Box/>", "Text.\n\n## The \\<Box/>"),
        ('<Card title="Doku&shy;seiten" description="A &amp; B" />', "**Dokuseiten**: A & B"),
        ("::: a.b\n    options:\n      members:\n        - c\n\n    handler: python\n\n::: a.c\n\nText.", "Text."),
        ("::: core\n\n    options:\n        a: b\nText.\n\n::: a.b.c", "Text."),
        (
            "::: tip\n    a: b\n:::\n\n::: note\nText.\n:::",
            "> **Tip**\n>\n> ```\n> a: b\n> ```\n\n> **Note**\n>\n> Text.",
        ),
        ('Some {{< tooltip text="pods" term_id="pod" >}} run; {{< ref "a" >}}it.', "Some pods run; it."),
        ("| a |\n|---|\n| It is <Badge text='new' /> |\n\n<Box>\nb\n</Box>", "| a |\n|---|\n| It is new |\n\nb"),
        ("Mended in {pr}`12` and {issue}`x`.", "Mended in #12 and x."),
        ("By {pep}`783`, {rfc}`2822` and {pep}`the style <8>`.", "By PEP 783, RFC 2822 and the style."),
        ('{{< copyable "sql" >}}\n\nText.', "Text."),
        ('{{% lead "Intro" %}}\n\nText.', "Text."),
        ("{% lang 'en' %}\n\n{% tab 'npm' %}\nText.\n{% endtab %}", "**npm**\n\nText."),
        (
            "{{% tab AMD64 %}}\n\na\n\n{{% /tab %}} {{% tab arm-v7 %}}\n\nb\n\n{{% /tab %}}",
            "**AMD64**\n\na\n\n**arm-v7**\n\nb",
        ),
        ("{{< tab >}}\n\na\n\n{{< /tab >}}\n\n{{< note wide >}}\nb\n{{< /note >}}", "a\n\n> **Note**\n>\n> b"),
        ('{% content-ref url="a.md" %}\nText.\n{% endcontent-ref %}', "Text."),
        ("{% highlight ruby %}\nputs '{{ x }}'\n{% endhighlight %}", "```ruby\nputs '{{ x }}'\n```"),
        ("{{< code-toggle file=hugo >}}\n[a.b]\nc = 1\n{{< /code-toggle >}}\nText.", "```\n[a.b]\nc = 1\n```\n\nText."),
        (
            "{{< code-toggle a=b />}}\n\nText.\n\n{{< code-toggle >}}\nc = 1\n{{< /code-toggle >}}",
            "Text.\n\n```\nc = 1\n```",
        ),
        ("{{< highlight go >}}\nx := `a`\n{{< /highlight >}}\nText.", "```go\nx := `a`\n```\n\nText."),
        (
            '<Tabs npm="npm i a" sh="sh <(curl https://a.example | c)" class="b" />\n\nText.',
            "**npm**\n\n```bash\nnpm i a\n```\n\n**sh**\n\n```bash\nsh <(curl https://a.example | c)\n```\n\nText.",
        ),
        (
            "1. Add:\n\n   <Run\n     cargo={`cargo add a\n     cargo add b`}\n   />\n\n1. Go.",
            "1. Add:\n\n   **cargo**\n\n   ```bash\n   cargo add a\n   cargo add b\n   ```\n\n2. Go.",
        ),
        ('<Card title="npm i" npm="npm" class="b c" />\n\n<Box>\nText.\n</Box>', "**npm i**\n\nText."),
    ],
)
def test_what_the_attributes_of_a_component_say_is_shown(component: str, shown: str) -> None:
    assert read(component) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Side\n  config={[{ a: [{ b: { c: { d: 1 } } }] }]}\n/>\n\nText.", "Text."),
        ("<Side on={() => { if (a) { b({ c: { d: [{}] } }) } }}>\nText.\n</Side>", "Text."),
        ("<Box>\n{a.map((b) => ({ c: { d: { e: {} } } }))}\n\nText.\n</Box>", "Text."),
        ("<Box>\n\nUse {{{ .starter }}} here.\n\n</Box>", "Use starter here."),
        ("<i style={{color: 'red'}}># Out</i><br />\nmore\n\nText", "\\# Out  \nmore\n\nText"),
        ("- <ins style={{background: '#fff'}} className=\"box\" /> white (<code>#fff</code>)", "- white (`#fff`)"),
        (
            "<Box>\n<details>\n<summary>Show</summary>\n```js\n<a>{x}</a>\n```\n</details>\n</Box>",
            "**Show**\n\n```js\n<a>{x}</a>\n```",
        ),
        ("<Box>\nWait for it:\n    ```py\n    a\n\n    b\n    ```\n</Box>", "Wait for it:\n\n```py\na\n\nb\n```"),
        ("> <Box>\n> a\n> ```js\n> b\n> ```", "> a\n>\n> ```js\n> b\n> ```"),
        (
            '| a |\n|---|\n| <If sdk="x">`b`</If> <If sdk="y">`c`</If> |\n\n<Box>\nd\n</Box>',
            "| a |\n|---|\n| `b` `c` |\n\nd",
        ),
        (
            '<table><tr><th>A</th><th>B</th></tr><tr v-for="a in b"><td>{{ a.c }}</td><td>d</td></tr></table>\n\nText.',
            "| A | B |\n|---|---|\n\nText.",
        ),
    ],
)
def test_what_jsx_shows_is_read(text: str, expected: str) -> None:
    assert read(text) == expected


def test_code_of_mdx_needs_no_blank_line_and_no_margin() -> None:
    text = "Wait:\n    ```py\n    a\n    ```"
    assert [block.kind for block in read_markdown(text, is_mdx=True)] == ["paragraph", "code"]
    assert [block.kind for block in read_markdown(text)] == ["paragraph"]


@pytest.mark.parametrize(
    "formula", ["$$\nx = 1\n= y_2\n$$", "\\[\nx = 1\n= y_2\n\\]", "$$\nx = 1\n= y_2\n$$ (a-label)"]
)
def test_a_formula_on_lines_of_its_own_is_code(formula: str) -> None:
    assert read(f"It is\n\n{formula}\n\nhere.") == "It is\n\n```math\nx = 1\n= y_2\n```\n\nhere."
    assert kinds("\\[optional\\]") == [("paragraph", "\\[optional\\]")]
    assert [block.kind for block in read_markdown("\\begin{align}\na &= b\n\\end{align}")] == ["code"]


def test_html_in_a_cell_parts_what_a_browser_parts() -> None:
    [table] = read_markdown("| a |\n|---|\n| number <div>Android</div><hr/>array<p>One.</p>Two |")
    assert table.rows == (("number\nAndroid\narray\nOne.\nTwo",),)


def test_code_in_a_cell_of_html_keeps_its_ticks_and_has_no_links() -> None:
    cells = "<td><code>a``b</code></td><td><kbd><kbd>Ctrl</kbd>+<kbd>C</kbd></kbd></td>"
    [table] = read_markdown(f'<table><tr>{cells}<td><code><a href="https://x.example">q</a></code></td></tr></table>')
    assert table.rows == (("```a``b```", "`Ctrl+C`", "`q`"),)


def test_a_card_is_without_its_rules() -> None:
    assert read(":::{card} Title\nHead\n^^^\nBody\n+++\nFoot\n:::") == "**Title**: Head\n\nBody\n\nFoot"
    assert read("```{raw-cell}\nA licence\n```\n\nText.") == "Text."


def test_a_link_to_a_page_in_a_cell_is_its_text() -> None:
    [table] = read_markdown("| Name | Page |\n|---|---|\n| [Beta](b.md) | [guide](./a.md) |")
    assert table.rows == (("Beta", "guide"),)


@pytest.mark.parametrize(
    "prose",
    ["import it from there", "export the data with `x`", "Use {braces} and <T> here.", "a\n\n    <Tab/>\n    x"],
)
def test_prose_that_is_no_mdx_stays(prose: str) -> None:
    assert prose.split(maxsplit=1)[0] in read(prose)
    assert "{braces}" in read("Use {braces} here.")


def test_directives_that_are_not_known_keep_their_text() -> None:
    text = "```{unknown} Title here\n:key: x\n\nText *here*.\n\n- item\n```\n\n:::{other}\nMore.\n:::\n\n"
    text += "::: odd\nLast.\n:::"
    assert read(text) == "**Title here**\n\nText *here*.\n\n- item\n\nMore.\n\nLast."
    assert read("```{eval-rst}\n.. note:: The limit is 3.\n```").endswith("The limit is 3.")


def test_what_a_hook_reads_stands_in_its_place() -> None:
    blocks = read_markdown("a\n\n```{eval-rst}\nb\n```\n", lambda text, _names: (Block("paragraph", text.upper()),))
    assert [block.text for block in blocks] == ["a", "\n\n\nB"], "above it are the lines of the document"


def test_tables_of_myst_are_tables() -> None:
    rows = "* - Size\n  - Time\n* - 1 TB\n  - two hours\n"
    [caption, table] = read_markdown(f"```{{list-table}} Times\n:header-rows: 1\n\n{rows}```")
    assert (caption.text, table.header, table.rows) == ("Times:", ("Size", "Time"), (("1 TB", "two hours"),))
    [table] = read_markdown(f"```{{list-table}}\n:header-rows: 0\n\n{rows}```")
    assert (table.header, len(table.rows)) == ((), 2)
    [table] = read_markdown('```{csv-table}\n:header: "Size", "Time"\n"1 TB", "two hours, about"\n```')
    assert (table.header, table.rows) == (("Size", "Time"), (("1 TB", "two hours, about"),))


def test_code_of_directives_is_code() -> None:
    for opening in (
        "{code-block} python\n:linenos:\n",
        "{code-cell} python\n---\ntags: [a]\n---",
        "{code-cell} ipython3",
        "{jupyter-execute}",
        "{.python}",
    ):
        [block] = read_markdown(f"```{opening}\nrun()\n```")
        assert (block.kind, block.text, block.language) == ("code", "run()", "python")


def test_code_of_directives_has_its_caption() -> None:
    assert read("```{code-block} python\n:caption: conf_a.py\n\nrun()\n```") == "**conf_a.py**\n\n```python\nrun()\n```"
    assert read("```{code-block} python\n:caption: conf_a.py\n```") == ""


@pytest.mark.parametrize(
    "directive",
    ["{raw} latex\n\\newpage", "{only} latex\nOn paper.", "{sectionauthor} Bob <b@x.example>", "{graphviz}\na -> b"],
)
def test_directives_of_which_a_page_shows_nothing(directive: str) -> None:
    assert read(f"A.\n\n```{directive}\n```\n\nB.") == "A.\n\nB."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```{sidebar} Side\nBody.\n```", "**Side**\n\nBody."),
        ("```{prf:theorem} Of sums\n:label: a\n\nIt is.\n```", "**Theorem (Of sums)**\n\nIt is."),
        ("```{prf:proof}\nSo.\n```", "**Proof**\n\nSo."),
        ("```{autosummary}\n:toctree: api\n\nload\n~a.save\n```", "- `load`\n- `a.save`"),
        ("```{raw} html\n<b>Bold</b>\n```", "Bold"),
        ("See {numref}`Figure %s <plan>` and {numref}`Table {number} <b>`.", "See Figure and Table."),
        ("(a)=\n## The part {#b}\n\nSee <project:#a>, [](#a) and <inv:other#name>.",
         "## The part\n\nSee The part, The part and name."),
    ],
)  # fmt: skip
def test_what_sphinx_shows_of_directives_and_references(text: str, expected: str) -> None:
    assert read(text) == expected


def test_an_attribute_of_several_lines_leaves_the_numbers_of_lines() -> None:
    [_, code] = read_markdown("<Box title='a\n\n  b\n' />\n\n```ts\nc\n```", is_mdx=True)
    assert (code.text, code.start_line) == ("c", 6)


def test_how_a_layout_is_made_is_no_text() -> None:
    button = ":::{button-ref} a b\n:ref-type: doc\n\nGo {fa-solid}`x;y` on\n:::"
    assert read(f"::::{{grid}} 1 2 2 3\n:::{{grid-item-card}} A\nOne.\n:::\n::::\n\n{button}") == "**A**: One.\n\nGo on"


def test_a_role_between_two_marks_has_code_in_it() -> None:
    text = "See {doc}``the `a` part <b:c>`` and {option}``-d <e.-d>``."
    assert read(text) == "See the `a` part and `-d`."


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ('"Error \\"a\\" or \\\\b"', 'Error "a" or \\b'),
        ("'Use \"a\"'", 'Use "a"'),
        ("'It''s'", "It's"),
        ("\"'a' and b\"", "'a' and b"),
    ],
)
def test_a_title_in_quotes_may_have_others_in_it(value: str, title: str) -> None:
    assert read_title(f"---\ntitle: {value}\n---\nText") == title


def test_options_of_what_a_domain_describes_are_shown() -> None:
    options = ':type: "string"\n:scope: "all pools"\n:shortdesc: "How `a` is mapped"\n:default: 5\n'
    shown = "**`a`**: How `a` is mapped\n\ntype: string; scope: all pools"
    assert read(f"```{{config:option}} a\n{options}The mode.\n```") == f"{shown}\n\nThe mode."
    assert read(f"```{{config:option}} a\n{options}```") == shown
    assert read(f"```{{note}}\n{options}The mode.\n```") == "> **Note**\n>\n> The mode."


def test_options_that_are_indented_are_none_of_the_text() -> None:
    assert read("```{figure} a.png\n   :width: 690px\n   :alt: A plan\n\n   The plan.\n```").endswith("The plan.")
    assert read("```{figure} a.png\n   :width: 690px\n   :alt: A plan\n```") == ""


def test_what_a_terminal_shows_is_code() -> None:
    assert kinds("```{terminal}\nrun\n\n# TYPE a\na  b\n```") == [("code", "run\n\n# TYPE a\na  b")]


def test_the_terms_of_a_glossary_are_definitions() -> None:
    text = "```{glossary}\n:sorted:\n\nfirst : a\n  Its *meaning*.\n\n  More.\n\nsecond\nother\n\n  Both.\nlast\n```"
    assert read(text) == "**first**: Its *meaning*.\n\nMore.\n\n**second, other**: Both.\n\n**last**"
    assert read(":::{glossary}\na\n  - one\n  - two\n:::") == "**a**:\n\n- one\n- two"
    assert read("```{glossary}\n  a\n    One.\n```") == "**a**: One."
    assert read("```{glossary}\n```") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a:b)=\nname\n: What it does.\n\n    - `x`", "**name**: What it does.\n\n- `x`"),
        ("Text.\n(a)=\n- item", "Text.\n\n- item"),
        ("(a)=\n(b)=\n> Quoted.", "> Quoted."),
        ("f(x)=\n2 (and more)", "f(x)= 2 (and more)"),
    ],
)
def test_a_target_ends_what_is_above_it(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/// note | A *title*\nText.\n\n- a\n///\n\nEnd.", "> **A *title***\n>\n> Text.\n>\n> - a\n\nEnd."),
        ("/// details | More\n    open: True\n\n//// tab | npm\nText.\n////\n///", "**More**\n\n**npm**\n\nText."),
        ("/// version-added | v2.13\nText.\n///", "> **Added in v2.13**\n>\n> Text."),
        ("/// caption\nThe *end*.\n///", "The *end*."),
        ("- a\n\n    /// tip\n    b", "- a\n\n  > **Tip**\n  >\n  > b"),
        ("/// is a comment.\n//// So is this.", "/// is a comment. //// So is this."),
    ],
)
def test_blocks_between_slashes_are_read(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ('=== "Don\'t do this"', "Don't do this"),
        ('??? note "on the "new" names"', 'on the "new" names'),
        ("!!! tip 'It's'", "It's"),
        ('!!! note "Titled" { .a }', "Titled"),
        ("=== [Bracketed]", "Bracketed"),
    ],
)
def test_a_title_may_hold_quotes(line: str, title: str) -> None:
    assert [block.text for block in read_markdown(f"{line}\n\n    Text.")] == [title]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("---\ntitle: The page\n---\n# First\n\nText.\n\n# Second", ["The page", "First", "Second"]),
        ("---\ntitle: the page\n---\n# The *page*\n\nText.\n\n# Second", ["The *page*", "Second"]),
        ("---\ntitle: The page\n---\n# Only\n\n## Second", ["Only", "Second"]),
        ("---\nTitle: The page\n---\n## Second", ["The page", "Second"]),
        ("+++\nTITLE = 'The page'\n+++\n## Second", ["The page", "Second"]),
        ("---\nlinkTitle: Short\n---\n## Second", ["Second"]),
    ],
)
def test_front_matter_names_a_page_of_several_top_headings(text: str, titles: list[str]) -> None:
    assert [block.text for block in read_markdown(text) if block.kind == "heading"] == titles


GRID = """\
+-----------+-------+
| **Name**  | Needs |
+===========+:=====:+
| `a` is    | - b   |
| first     | - c   |
+-----------+-------+
| c, [d](https://a.example) |
+-----------+-------+"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GRID, "| **Name** | Needs |\n|---|---|\n| `a` is first | • b • c |\n| c, [d](https://a.example) |  |"),
        ("+---+---+\n| a | b |\n+---+---+\n| c | d |\n|   +---+\n|   | e |\n+---+---+", "- a: b\n- c: d e"),
        ("- x\n\n  +---+---+\n  | a | b |\n  +---+---+", "- x\n\n  - a: b"),
        ("Text\n+---+\nnext", "Text +—+ next"),
        ("```\n+---+\n| a |\n+---+\n```", "```\n+---+\n| a |\n+---+\n```"),
    ],
)
def test_a_table_may_be_drawn(text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('![](a.png){.border fig-alt="It\'s a\npicture {of} it" width="3"}\n\nText.', "Text."),
        ("See ![](b.png){#b fig-alt='a \"b\" c'} it.", "See it."),
        ('`x`{spellcheck="false"} and []{rowspan=2} [red]{style="color: #eee"}', "`x` and red"),
        ("f(x){y} and `x`{y}, [a]{b}", "f(x){y} and `x`{y}, [a]{b}"),
    ],
)
def test_attributes_of_a_part_are_no_text(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::: {.a}\n::: note\nIn.\n:::\nOut.\n:::\n\nEnd.", "> **Note**\n>\n> In.\n\nOut.\n\nEnd."),
        (
            ":::: note\n::: tip\nIn.\n:::\nOut.\n::::\n\nEnd.",
            "> **Note**\n>\n> > **Tip**\n> >\n> > In.\n>\n> Out.\n\nEnd.",
        ),
        (":::: note\n::: tip\nIn.\n::::\n\nEnd.", "> **Note**\n>\n> > **Tip**\n> >\n> > In.\n\nEnd."),
        ("::: note\nIn.\n::\n\n::: tip\nIt.\n:::\n\nEnd.", None),
        ("::::: note\n```\n:::\n```\n:::::\n\nEnd.", "> **Note**\n>\n> ```\n> :::\n> ```\n\nEnd."),
        (":::: note\nIn.\n:::\nOut.\n::::\n\nEnd.", "> **Note**\n>\n> In.\n>\n> Out.\n\nEnd."),
        (":::: note\nIn.\n:::\nOut.\n\n:::: tip\nIt.\n::::\n\nEnd.", None),
        ("Text.\n:::\n\nEnd.", "Text.\n\nEnd."),
        ("::: note\n```\n::: x\n:::\n```\n:::\n\nEnd.", "> **Note**\n>\n> ```\n> ::: x\n> :::\n> ```\n\nEnd."),
        ('::: {.callout-tip collapse="true"}\nIn.\n:::', "> **Tip**\n>\n> In."),
        ('::: {layout-ncol="2" fig-cap="a b"}\nIn.\n:::', "In."),
    ],
)
def test_containers_end_as_they_begin(text: str, expected: str | None) -> None:
    assert read(text).endswith("\n\nEnd.") if expected is None else read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```{r}\n#| label: a\n#| fig-cap: b\n\nplot(x)\n```", "```r\nplot(x)\n```"),
        ("```{python}\n#| echo: false\nprint(1)\n```\n\nText.", "Text."),
        ("```{r, echo=FALSE}\nx\n```\n\nText.", "Text."),
        ("```{r a, fig.cap='b', include = F}\nx\n```\n\nText.", "Text."),
        ("```{python echo=FALSE}\nx\n```\n\nText.", "Text."),
        ("```{r echo, warning=FALSE}\nx\n```", "```r\nx\n```"),
        ("```{ojs}\n//| output: all\nx\n```", "```ojs\nx\n```"),
        ("```python\n#| label: a\nx\n```", "```python\n#| label: a\nx\n```"),
        ("```{=html}\n<p>A <b>b</b></p>\n<style>c</style>\n```", "A b"),
        ("```{=latex}\n\\newpage\n```\n\nText.", "Text."),
        ('| a |\n|---|\n| b |\n\n: {tbl-colwidths="[30,70]"}\n\nText.', "| a |\n|---|\n| b |\n\nText."),
        ("+---+---+\n| a | b |\n+---+---+\n\n: The *names*", "- a: b\n\nThe *names*"),
    ],
)
def test_what_quarto_reads_is_not_shown(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Start :id=start\n\nText.", "# Start\n\nText."),
        ("## Start {docsify-ignore-all}", "## Start"),
        ("> [!TIP] **You**: use `a`.", "> **Tip**\n>\n> **You**: use `a`."),
        ("> [!TIP] First.\n> Then.", "> **Tip**\n>\n> First. Then."),
        ("> [!NOTE] For this:\n>\n> - a", "> **Note**\n>\n> For this:\n>\n> - a"),
        ("> [!tip] A title\n> Text.", "> **A title**\n>\n> Text."),
    ],
)
def test_docsify(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("formula", "is_code"),
    [("Y = c + d X", True), ("h(p) = 0", True), ("p>0", True), ("5 = 6", False), ("cost = 5", False), ("A", True)],
)
def test_what_stands_between_dollars_is_a_formula(formula: str, is_code: bool) -> None:
    assert read(f"Where ${formula}$ is.") == f"Where {'`' if is_code else '$'}{formula}{'`' if is_code else '$'} is."


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("import a\n// ---cut---\nb", "b"),
        ("import a\n  // ---cut-before---\nb\n// ---cut-after---\nc", "b"),
        ("a\n// ---cut---\nb\n// ---cut---\nc", "c"),
        ("a\n  // ---cut-start---\nb\n  // ---cut-end---\nc", "a\nc"),
        ("a = '---cut---'\nb // ---cut---", "a = '---cut---'\nb // ---cut---"),
        ("// @errors: 2345\n// @noErrors\na.b;\n//  ^|\n\nb(); // @c", "a.b;\n\nb(); // @c"),
        ("// @filename: a.ts\nb", "// @filename: a.ts\nb"),
    ],
)
def test_what_twoslash_cuts_off_is_not_shown(code: str, shown: str) -> None:
    assert read(f"```ts twoslash\n{code}\n```") == f"```ts\n{shown}\n```"


@pytest.mark.parametrize(("info", "shown"), [("ts twoslash", "let x = 1;\ny;"), ("ts", "let x = 1;\n//  ^?\ny;")])
def test_a_question_to_twoslash_is_shown_in_code_that_it_does_not_check(info: str, shown: str) -> None:
    assert read(f"```{info}\nlet x = 1;\n//  ^?\ny;\n```") == f"```ts\n{shown}\n```"


def test_what_twoslash_reads_stands_elsewhere() -> None:
    assert read("```twoslash include db\nx\n```\n\n```ts\n// @see: b\nx\n```") == "```ts\n// @see: b\nx\n```"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{{< code label="a" >}}\n```yaml\nb\n```\n{{< /code >}}', "```yaml\nb\n```"),
        ('{{<editCode label="a" copy="all">}}\n```yaml\nb\n```\n{{</editCode>}}', "```yaml\nb\n```"),
        ('By\n{{<hover label="a" line="3">}}the name{{</hover>}}\nof it.', "By\n\nthe name\n\nof it."),
        ('{{< tab label="Line" >}}\nb\n{{< /tab >}}', "**Line**\n\nb"),
    ],
)
def test_what_code_is_called_is_not_shown(text: str, shown: str) -> None:
    assert read(text) == shown


@pytest.mark.parametrize(
    ("title", "plain"),
    [
        (f"`run({'x, ' * 200}**y)` of *it*", f"run({'x, ' * 200}**y) of it"),
        ("`Symbol`s and `*args`, `**kwargs`", "Symbols and *args, **kwargs"),
        ("``a ` b`` and `c", "a ` b and `c"),
    ],
)
def test_a_title_is_without_the_marks_of_code(title: str, plain: str) -> None:
    assert to_plain(title) == plain


def test_what_a_domain_describes_is_a_definition() -> None:
    assert read("```{py:function} run(x)\nRuns it.\n```") == "**`run(x)`**: Runs it."
    assert read("```{http:get} /users\nAll users.\n```") == "**`GET /users`**: All users."
    assert read("```{versionadded} 1.2 It is faster.\n```") == "> **Added in 1.2**\n>\n> It is faster."


HOSTILE = [
    "[",
    "![",
    "`",
    "*a **a ",
    "_a __a ",
    "<",
    "<a ",
    "<a {",
    '<a "',
    "<A ",
    "<!--",
    "{/*",
    "{",
    "{{",
    "{%",
    "{{<",
    "> ",
    "- ",
    "1. ",
    "a](",
    "\\",
    "&",
    "![[]()",
    "|",
    "[^a]",
    "{a}`",
    "\xad",
    "$",
    "~~",
    "](<",
    "```\n",
    "~~~\n",
    ":::a\n",
    "```{note}\n",
    "!!! a\n",
    "=== a\n",
    "[a]: b\n",
    "[^a]: b\n",
    "<A>\n",
    "</A>\n",
    "<details>\n\n",
    "<div>\n\n",
    "<pre>\n",
    "<table><tr><td>\n\n",
    "| a\n|-\n",
    "a\n: b\n\n",
    "# a\n",
    "a\n===\n",
    "import x from 'y'\n\n",
    "/* a */\n",
    "export const a = {\n",
    "{% a %}\n",
    "> - ",
    "<!-- a\n\n",
    "(a)=\n",
    "% a\n",
    "---\na: b\n",
    "%%\n",
    "%%a ",
    "%%a\n\n",
    "{>>a",
    "[[a",
    "[[a|",
    "==a",
    "++a",
    "++a+",
    "{% highlight a %}\n",
    "<A b={{c: 'd'},\n",
    "{a: 'b'}, ",
    "*[a]: b\n",
    "data:a/b;base64,",
    "\\(",
    "\\(a\\",
    "$$\n",
    "$$ x\n\n",
    "- $$ x\n",
    "$a",
    "\\begin{equation}\n",
    "\\begin{equation}\n\n",
    "- \\begin{align}\n",
    "[a]{#",
    "<A rows={[[1],",
    "<A head={[",
    ":a",
    ":a:",
    "[`a",
    "[a::",
    "{# ",
    "{{ a(",
    "<div>\n<pre>\n\n",
    "<b><pre>",
    "```{glossary}\na\n",
    "---\ntitle: a\n title: b\n",
    "````mdx-code-block\n",
    "<Code>{`",
    "<Code>{`a\\",
    "<sup>1</sup>",
    "<p>a<sup>1</sup></p>",
    "<script>",
    "<script>\n</script>",
    "<div markdown='1'>\n",
    "1^2",
    "a~1~",
    "<a markdown",
    "1. a\n{:toc}\n",
    "```twoslash include a\nb\n```\n```ts twoslash\n// @include: a\n```\n",
    "kernelspec:\n a: b\n",
    "a\n       - b\n c\n",
    "\\----",
    "::: a\n    options:\n",
    "::: a\n\n",
    "[a]: {{",
    "[a]: {{ b }}\n",
    "[a][",
    "[a][b",
    "[Aa",
    "$$a ",
    "{{ a |",
    "+--+\n",
    "|a\n+--+\n",
    "/// a\n",
    "/// a | b\n\n//// a\n\n",
    "![](a){b='c' ",
    "{% comment %}",
    "(a)=\n",
    "<A a='a b' ",
    ":::\n",
    "::: a\n",
    "::: a\n:::\n:::: b\n",
    "$a=",
    "@startuml\n",
    "@startuml\n\n",
    ":\n    a\n\n",
    ":   <!-- a -->\n    <!-- b -->\n",
    "[a] [b] ",
    "[a][^b]",
    "a^[bc",
    " ^^a",
    "# a #",
    "# <!-- a:b c -->\n",
    '<A to="b" />',
    "<template #a>",
    "<b @a='b' ",
    "::: tabs\n@tab a#\n",
    "{{ a(b\n",
]


LIMITS = Growth(quick_size=1000, quick_s=0.0, size=20_000, min_s=0.075, max_s=5.0)


@pytest.mark.parametrize("piece", HOSTILE)
def test_reading_is_linear(piece: str) -> None:
    assert find_growth(lambda text: write_markdown(read_markdown(text)), [Text("", piece, "")], LIMITS) == ""


@pytest.mark.parametrize(
    "opening",
    [
        "```{note}\n" * 300,
        "".join(f"{'`' * (303 - depth)}{{note}}\n" for depth in range(300)),
        "".join(f"{':' * (303 - depth)}note\n" for depth in range(300)),
        "".join(f"{'/' * (303 - depth)} note\n" for depth in range(300)),
        "<Note>\n\n" * 300,
    ],
)
def test_nested_directives_keep_their_text(opening: str) -> None:
    assert "Deep inside." in write_markdown(read_markdown(f"Before.\n\n{opening}Deep inside.\n"))


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (">>> f(1)  # doctest: +SKIP\n<BLANKLINE>\n1", ">>> f(1)\n\n1"),
        ("x = 1  # doctest: +SKIP\n<BLANKLINE>", "x = 1  # doctest: +SKIP\n<BLANKLINE>"),
        ("a()\n  // highlight-next-line\nb()\n{/* highlight-start */}\nc\n<!-- highlight-end -->", "a()\nb()\nc"),
        ("# highlight-start\na: 1\n# highlight-end\n# highlight-colour: red", "a: 1\n# highlight-colour: red"),
        ("a # (1)!\nb <!-- (12)! -->\nf(1)!", "a\nb\nf(1)!"),
        ("a // [!code ++]\nb # [!code focus:2]\nc <!-- [!code highlight] -->\n[!code]", "a\nb\nc\n[!code]"),
        ("a\n  // [!code ++:2]\nb", "a\nb"),
        ("a // [!code --]\nb // [!code ++:2]\n  c\nd", "- a\n+ b\n+   c\n  d"),
        ("a // [!code --] or [!code ++]", "a // [!code --] or [!code ++]"),
    ],
)
def test_code_has_no_marks_for_the_tool_that_shows_it(code: str, shown: str) -> None:
    assert [block.text for block in read_markdown(f"```js\n{code}\n```")] == [shown]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [Start](a.md)\n- [Web](https://a.example)", "- → Start\n- [Web](https://a.example)"),
        ("[Docs](/) / [Guide](/guide) / Ports", "→ Docs / Guide / Ports"),
        ("- [`run`](b.md#run)\n- Read [on](b.md).", "- → `run`\n- Read on."),
        ("## [Start](a.md)", "## Start"),
        ('## 9.7 { id="9.7" }\n\nUse `#!css a {}`, `#!/bin/sh` { data-x }', "## 9.7\n\nUse `a {}`, `#!/bin/sh`"),
    ],
)
def test_what_only_a_page_of_the_site_needs_is_left_out(text: str, expected: str) -> None:
    assert read(text) == expected


def test_the_words_of_a_block_helper_are_a_paragraph() -> None:
    text = '{{#options}}\n{{#option "`--jobs` _n_" "`-j`"}}\nHow many.\n{{/option}}\n{{/options}}\n'
    assert read(text) == "`--jobs` _n_ `-j`\n\nHow many."


def test_settings_of_a_page_are_no_text() -> None:
    assert read(":orphan:\n(a:b)=\n\n# A\n\n:tocdepth: 2") == "# A"
    assert read(":warning: Careful.") == "⚠️ Careful."


def test_what_follows_an_icon_begins_without_a_dash() -> None:
    assert read("- :material-run: - Runs 3 - 255 times\n- ![](a.png) – `b`") == "- Runs 3 - 255 times\n- `b`"


def test_code_that_is_highlighted_ends_at_any_closing_tag() -> None:
    text = "{{< highlight go >}}\na = 1\n{{</ highlight >}}\n\nThen."
    assert read(text) == "```go\na = 1\n```\n\nThen."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| a | 1 |\n| `b|c` | 2\\|3 |", "- a: 1\n- `b|c`: 2|3"),
        ("|---|:-:|\n| a | 1 |", "- a: 1"),
        ("Ports:\n| a | 1 |\n| b | 2 |", "Ports:\n\n- a: 1\n- b: 2"),
        ("| name | port | use |\n|---|---|\n| a | 1 | 2 |", "| name | port | use |\n|---|---|---|\n| a | 1 | 2 |"),
        ("| a | b |", "| a | b |"),
        ("|x|\n|y|", "|x| |y|"),
        ("Either a |\nb | c |", "Either a | b | c |"),
    ],
)
def test_rows_between_pipes_are_a_table(text: str, expected: str) -> None:
    """Not each tool needs the row below the names, and a reader sees rows in any case."""
    assert write_markdown(read_markdown(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Click ![the *gear*](a.png), then wait.", "Click the gear, then wait."),
        ("The gear ![The gear](a.png) and the ![menu](b.png) menu", "The gear and the menu"),
        ("**Go** ![gear](a.png) and `x` ![one](b.png) y", "**Go** gear and `x` one y"),
        ("![a](a.png) text. ![b](b.png) Next\n![c](c.png) line f ![g](g) ![h](h)", "text. Next line f"),
        ("Click on [![Try it](d)](e).\n\n[![a](a)](b) [![c](c)](d) e", "Click on Try it.\n\ne"),
    ],
)
def test_a_picture_between_words_is_one(text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text)) == expected


def test_a_row_of_pictures_is_none() -> None:
    [table] = read_markdown("| A | B |\n|---|---|\n| ![](a.png) | ![b](b.png) |\n| c | |")
    assert (table.header, table.rows) == (("A", "B"), (("c", ""),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "- One:\n\n  {{< highlight go >}}\n  x := 1\n  {{< /highlight >}}\n\n  Go on.\n- Two",
            "- One:\n\n  ```go\n  x := 1\n  ```\n\n  Go on.\n\n- Two",
        ),
        (
            "1. {% highlight go %}\n   x := 1\n   {% endhighlight %}\n\n   Go on.",
            "1. ```go\n   x := 1\n   ```\n\n   Go on.",
        ),
        (
            "`Name`\n: {{< new-in 1.2 />}}\n: (`int`) The name.\n\n`Old`\n: The old one.",
            "**`Name`**: (`int`) The name.\n\n**`Old`**: The old one.",
        ),
    ],
)
def test_tags_of_templates_within_lists(text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text)) == expected


NOTES = """\
# Broker[^1]

| Name | Text |
|---|---|
| a | Shown below[^1] |

It runs[^b], as `[^1]` in [^long] and [^none].

[^1]: By *default*, it is | shown.
[^b]: Twice.
[^long]: One.

    Two.
[^unused]: Never.
"""


def test_a_short_footnote_stands_where_its_mark_is() -> None:
    assert read(NOTES) == (
        "# Broker\n\n| Name | Text |\n|---|---|\n| a | Shown below (By *default*, it is \\| shown.) |\n\n"
        "It runs (Twice.), as `[^1]` in and .\n\nOne.\n\nTwo.\n\nNever."
    )


def test_a_footnote_of_many_marks_stays_apart() -> None:
    assert read("a[^1] " * 6 + "\n\n[^1]: Text.") == "a a a a a a\n\nText."
    assert read("a[^1].\n\n[^1]: " + "Text. " * 60).startswith("a.\n\nText.")
    assert read("# Only a title[^1]\n\n[^1]: Text.") == "# Only a title\n\nText."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('See <a href="https://a.example/x?a=1&amp;b=2" target="_blank">the **guide**</a>.',
         "See [the **guide**](https://a.example/x?a=1&b=2)."),
        ("<a class=b href='https://a.example/x'>`x`</a>, <A HREF=https://a.example/y>y</A>",
         "[`x`](https://a.example/x), [y](https://a.example/y)"),
        ('<a href="/other.md">other</a>, <a name="x"></a>and <a href="https://a.example"><img src="a.png"></a>none',
         "other, and none"),
        ('[out <a href="https://a.example">in</a>](https://b.example), <a href="https://a.example">open',
         "[out [in](https://a.example)](https://b.example), open"),
        ("`<a href=\"https://a.example\">x</a>`", "`<a href=\"https://a.example\">x</a>`"),
        ('<a href="https://a.example">\n  May 1\n</a>', "[May 1](https://a.example)"),
    ],
)  # fmt: skip
def test_a_link_that_is_written_as_a_tag_is_one(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<Snippet lang="bash">\n{`npm i x\nnpm run`}\n</Snippet>', "```bash\nnpm i x\nnpm run\n```"),
        ("<Terminal>{`a {b}\n  c \\`d\\``}</Terminal>\n\nText.", "```\na {b}\n  c `d`\n```\n\nText."),
        ("<Tabs code={`pip install y\n  z`} />\n\nText.", "```\npip install y\nz\n```\n\nText."),
        ('<Show language="sh" code="a &amp;&amp; b" />', "```sh\na && b\n```"),
        ('<Status code="404" />\n\n<Box>\nText.\n</Box>', "Text."),
    ],
)
def test_code_of_any_component_is_code(text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text, is_mdx=True)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<Api calls={[{"path": "/v1/a", "method": "get"}]} />', "All a **b**.\n\n`GET /v1/a`"),
        ("", "All a **b**."),
        ("Text.", "Text."),
    ],
)
def test_a_page_without_text_is_what_it_says_of_itself(body: str, expected: str) -> None:
    text = f"---\ntitle: The <A/>\ndescription: |-\n  All a\n    **b**.\nfull: true\n---\n\n{body}"
    assert write_markdown(read_markdown(text, is_mdx=True)) == f"# The \\<A/>\n\n{expected}"


def test_an_element_that_no_browser_knows_parts_no_text() -> None:
    assert read("<div>\nInto one <Box /> component.\n</div>") == "Into one component."


def test_code_for_several_tools_is_of_the_shell() -> None:
    assert read("```package-install\nnpm i tarn\n```") == "```bash\nnpm i tarn\n```"


def test_what_is_unfolded_has_its_title_once() -> None:
    text = '<details><summary>a.ts</summary>\n\n```ts title="a.ts"\nx\n```\n\n</details>'
    assert read(text) == "**a.ts**\n\n```ts\nx\n```"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use ``a`` or ```` b ````, not `` ` ``.", "Use `a` or `b`, not `` ` ``."),
        ("` ``` ` begins code.", "```` ``` ```` begins code."),
    ],
)
def test_code_in_a_line_has_no_more_ticks_than_it_needs(text: str, expected: str) -> None:
    assert read(text) == expected
    assert read(expected) == expected


def test_a_container_ends_where_its_first_line_is_repeated_below_its_text() -> None:
    assert (
        read(":::tip\nA.\n:::tip\n\n## B\n\n:::note\n\nC.\n\n:::")
        == "> **Tip**\n>\n> A.\n\n## B\n\n> **Note**\n>\n> C."
    )
    assert read(":::tip\nA.\n\n:::tip\nB.\n:::\n:::\nC.") == "> **Tip**\n>\n> A.\n>\n> > **Tip**\n> >\n> > B.\n\nC."


def test_values_of_the_front_matter_are_filled_in() -> None:
    page = "---\nmyst:\n  substitutions:\n    API: '<b>API change</b>'\n---\n\n{{ API }} in {func}`~a.run`"
    assert write_markdown(read_markdown(page)) == "API change in `run()`"


def test_a_card_that_leads_to_another_site_is_a_link() -> None:
    cards = [
        "import x from 'x';\n\n# Next\n",
        '<Card title="Tool" href="https://a.org/b">How.</Card>',
        '<Card title="Page" href="/b">How.</Card>',
        '<Card title="Blank" href="https://a.org/ b" />',
    ]
    written = write_markdown(read_markdown("\n\n".join(cards), is_mdx=True))
    assert written == "# Next\n\n**[Tool](https://a.org/b)**: How.\n\n**Page**: How.\n\n**Blank**"


def test_a_box_without_a_title_is_a_quotation_and_tabs_are_named_as_their_group_says() -> None:
    box = "import x from 'x';\n\n<Callout>\n  Mind this.\n</Callout>\n\nMore."
    assert write_markdown(read_markdown(box, is_mdx=True)) == "> Mind this.\n\nMore."
    tabs = "<Tabs items={['Expo', 'FCM']}>\n<Tab value=\"fcm\">\n\nOne\n\n</Tab>\n</Tabs>"
    assert write_markdown(read_markdown(tabs, is_mdx=True)) == "**FCM**\n\nOne"


def test_restructuredtext_in_a_page_knows_what_its_references_lead_to() -> None:
    page = "```{eval-rst}\nSee :ref:`io` and :ref:`own`.\n```\n\n(own)=\n## Own part"
    blocks = read_markdown(
        page, lambda _text, names: (Block("paragraph", f"{names['io']} {names['own']}"),), names={"io": "Reading files"}
    )
    assert write_markdown(blocks) == "Reading files Own part\n\n## Own part"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<div>\n<h1>\n<picture>\n<source src="a">\n<img alt="Helix" src="b">\n</picture>\n</h1>\n</div>\n\nb',
            "Helix",
        ),
        ("# [![The Tank Logo](a.svg)](https://x.org)\n\nb", "The Tank"),
        ("# <img src='a' alt='Tank &amp; Valve'/>\n\nb", "Tank & Valve"),
        ("# ![logo](a.svg)\n\nb", ""),
        ("# ![Helix](a.svg)\n\n# Start\n\nb", "Start"),
        ("---\ntitle: The site\n---\n# ![Helix](a.svg)\n\nb", "The site"),
        ("## ![Helix](a.svg)\n\nb", ""),
        ("# ![Helix](a.svg) is fast\n\nb", "is fast"),
    ],
)
def test_a_picture_that_is_all_of_a_title_is_named(text: str, expected: str) -> None:
    headings = [block.text for block in read_markdown(text) if block.kind == "heading"]
    assert headings == ([expected] if expected else [])


def test_a_picture_is_the_title_above_several_parts_of_the_first_level() -> None:
    text = "# ![Helix](a.svg)\n\na\n\n# Features\n\nb\n\n# Start\n\nc"
    headings = [(block.level, block.text) for block in read_markdown(text) if block.kind == "heading"]
    assert headings == [(0, "Helix"), (1, "Features"), (1, "Start")]


@pytest.mark.parametrize(
    "front", ["pageTitle: All of it\ntitle: It", "title: It\npage_title: 'All of it'", "title: All of it"]
)
def test_the_title_of_a_page_goes_before_that_of_its_entry_in_a_menu(front: str) -> None:
    assert read(f"---\n{front}\n---\nText.") == "# All of it\n\nText."


def test_terms_of_html_below_each_other_have_one_description() -> None:
    terms = "<dt><code>-j</code> N</dt>\n<dt><code>--jobs</code> N</dt>"
    text = f"<dl>\n{terms}\n<dd><p>Jobs.</p></dd>\n<dt>-k</dt>\n<dd>On.</dd>\n</dl>"
    assert read(text) == "**`-j` N, `--jobs` N**: Jobs.\n\n**-k**: On."
