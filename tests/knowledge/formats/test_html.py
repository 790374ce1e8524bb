"""What is read of a web page: its main content as Markdown, and nothing of what surrounds it."""

from __future__ import annotations

import pytest

from core.markup.markdown import read_markdown
from knowledge.formats.html import read_page
from tests.support.growth import Growth, Text, find_growth

TEXT = "A rocket needs fuel, and the fuel has to be cold when the tank is filled. " * 4
SURROUNDINGS = """
<header><a href="/">Rocket Inc.</a></header><nav>Home Blog</nav>
{main}
<aside>Our sponsors</aside><footer>All rights reserved</footer>
"""


def read(main: str) -> str:
    """Read a page with this main part, or whole if it has a body."""
    html = main if "<body" in main else f"<html><body>{SURROUNDINGS.format(main=main)}</body></html>"
    return read_page(html.encode(), "https://example.org/").text.replace("  \n", "\n")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<h2>Fuel<a class="headerlink" href="#fuel">¶</a></h2>', "## Fuel"),
        ('<h3><a href="#x">#</a> <a href="/tank">The tank</a></h3>', "### The tank"),
        ("<p>Call <code>fill_the_tank()</code>,\n  then <b>wait</b>.</p>", "Call `fill_the_tank()`, then wait."),
        ("<p>one<br>two</p>three<div>four</div>", "one\ntwo\n\nthree\n\nfour"),
        ("<ul><li>a<ul><li>b</li></ul></li><li><p>c</p><p>d</p></li></ul>", "- a\n  - b\n\n- c\n\n  d"),
        ("<ol><li>a</li><li>b</li></ol><p>c</p>", "1. a\n2. b\n\nc"),
        ("<ol><li>Run<pre>fill</pre></li></ol>", "1. Run\n\n   ```\n   fill\n   ```"),
        ("<table><tr><th>k</th><th>is</th></tr><tr><td>a|b</td></tr></table>", "| k | is |\n|---|---|\n| a\\|b |  |"),
        ("<table><tr><td><pre>x = 1</pre></td><td>note</td></tr></table>", "```\nx = 1\n```\n\nnote"),
        ("<dl><dt>port</dt><dd>where it listens</dd></dl>", "**port**: where it listens"),
        ("<dl><dt>a</dt><dt>b<dd><p>c</p><pre>d</pre><dt>e<dd>f</dl>g", "**a, b**: c\n\n```\nd\n```\n\n**e**: f\n\ng"),
        ('<p>a</p><div><div class="title">Fast</div><p>b</p></div><p class="title">More</p><pre>c</pre>',
         "a\n\nFast\nb\n\nMore\n\n```\nc\n```"),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"),
        ('<div class="admonition note"><p class="admonition-title">Note</p><p>a</p></div>b', "> **Note**\n>\n> a\n\nb"),
        ("<details><summary>More</summary>a<ul><li>b</ul></details>", "> **More**\n>\n> a\n>\n> - b"),
        ('<ol start="3"><li>a<li>b</ol>', "3. a\n4. b"),
        ('<ol start="0"><li>a<li>b</ol>', "0. a\n1. b"),
        ("<ul>a<li>b</ul><li>c", "- a\n- b\n\n- c"),
        ("<p>2 * 3, f(*args), a_b, [x](y)</p>", "2 * 3, f(*args), a_b, [x\\](y)"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "- a: b"),
        ("<table><tr><th>A</th><th>B</th><th>C</th></tr><tr><td rowspan=2>x</td><td>1</td><td>y</td></tr>"
         "<tr><td>2</td><td>z</td></tr></table>", "| A | B | C |\n|---|---|---|\n| x | 1 | y |\n| x | 2 | z |"),
        ("<table><tr><th>A</th><th>B</th><th>C</th></tr><tr><td colspan=2>x</td><td>y</td></tr></table>",
         "| A | B | C |\n|---|---|---|\n| x |  | y |"),
        ("<table><tr><th>Day</th><th>Open</th></tr><tr><td>Mon</td><td><ul><li>10<li>20</ul></td></tr></table>",
         "| Day | Open |\n|---|---|\n| Mon | • 10 • 20 |"),
        ("<table><tr><th>A<th>B<tr><td>a<td>So:<ol start=2><li>b<ul><li>c<li>d</ul><li>e</ol>f"
         "<tr><td>g<td><ul><li>h</ul></table>",
         "| A | B |\n|---|---|\n| a | So: 2. b ◦ c ◦ d 3. e f |\n| g | h |"),
        ("<h1>A</h1><table><tr><td>b<td><h2>C</h2>d</table>", "# A\n\nb\n\n## C\n\nd"),
        ("<p>Let <math><mi>x</mi><mo>=</mo><mn>2</mn></math> hold.</p>", "Let `x=2` hold."),
        ("<p>So <math><semantics><mi>y</mi><annotation>y^2</annotation></semantics></math>.</p>", "So `y^2`."),
        ("<p>a <!-- hidden --> b</p>", "a b"),
        ("<h2>a<!-- hidden -->b</h2><code>c<!-- hidden -->d</code>", "## ab\n\n`cd`"),
        ('<div hidden>x</div><div role="tabpanel" hidden>y</div>', "y"),
        ('<aside class="note">Keep it cold.</aside><aside>Sponsors</aside>', "Keep it cold."),
        ("<ul><li>a</li></ul><ol><li>b</li></ol>", "- a\n\n1. b"),
        ('<h2 id="x">Fuel <a href="#x">Link</a></h2><p>a</p>', "## Fuel\n\na"),
        ('<h2 id="x"><a href="#x">Fuel</a></h2>', "## Fuel"),
        ('<h2 id="y"><a href="#y">Tank</a> <i>new</i></h2>', "## Tank new"),
        ('<div id="x"><h2>Fuel</h2><a href="#x">Section titled Fuel</a><a href="#y">Tank</a></div>', "## Fuel\n\nTank"),
        ("<h2>Fuel<button>Copy</button></h2>", "## Fuel"),
        ("<table><caption>Tank <b>one</b></caption><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>",
         "Tank one\n\n| A | B |\n|---|---|\n| 1 | 2 |"),
        ('<table><caption class="sr-only">x</caption><tr><th>A</th><th>B</th></tr><tr><td>1</td>'
         "<td>2</td></tr></table>",
         "| A | B |\n|---|---|\n| 1 | 2 |"),
        ('<p>a<span style="clip: rect(0 0 0 0)">, x</span><i style="clip-path: inset(50%)">y</i></p>', "a"),
        ('<p>a <span style="clip: rect(1px, 1px, 1px, 1px)">x</span><i style="clip: rect(0, 20px, 9px, 0)">y</i></p>',
         "a y"),
        ('<h3><button aria-expanded="false" aria-controls="x">Fuel?</button></h3>'
         '<div id="x" hidden><p>Diesel.</p></div>',
         "### Fuel?\n\nDiesel."),
        ("<h3><span><button>Fuel?</button></span></h3><p>Diesel.</p>", "### Fuel?\n\nDiesel."),
        ('<button aria-expanded="false">Fuel?<svg><title>x</title></svg></button><div>Diesel.</div>',
         "**Fuel?**\n\nDiesel."),
        ('<dl><dt><button aria-expanded="false" aria-controls="x">Fuel</button></dt>'
         '<dd id="x" hidden>Diesel.</dd></dl>',
         "**Fuel**: Diesel."),
        ('<p>a</p><button aria-expanded="false" aria-haspopup="true" aria-controls="x">Menu</button>'
         '<div id="x" hidden>b</div>', "a"),
        ('<h3><button aria-expanded="false">Fuel?</button></h3><div hidden>Diesel.</div><div hidden>b</div>',
         "### Fuel?\n\nDiesel."),
        ('<h3>Fuel?</h3><div hidden="until-found">Diesel.</div><div hidden>b</div>', "### Fuel?\n\nDiesel."),
        ("<p>At <s>8081</s> 9091, <del> 3 GB </del><code>3</code>, <strike></strike>4.</p>",
         "At ~~8081~~ 9091, ~~3 GB~~ `3`, 4."),
        ('<p>a <span style="color: red; text-decoration: underline line-through">b</span> '
         '<span style="text-decoration:none">c</span> <del>d<br>e</del></p>', "a ~~b~~ c d\ne"),
        ("<p>2<sup>10</sup> rows of H<sub>2</sub>O, the 1<sup>st</sup> of 10<sup>-6</sup><sup><a>4</a></sup></p>",
         "2¹⁰ rows of H₂O, the 1st of 10⁻⁶[4]"),
        ("<p>It<sup>[<a>5</a>]</sup>, x<sup>2<a>3</a></sup>.</p>", "It[5], x23."),
        ('<div>It costs $<div style="display: inline;"><b>5</b></div> a month.<div>More.</div></div>',
         "It costs $5 a month.\n\nMore."),
        ('<p>In:</p><ul><li><a href="/a">Python</a></li><li><a href="/b">Go</a></li><li><a href="/c">C</a></li></ul>'
         f"<p>{TEXT}</p>", f"In:\n\n- Python\n- Go\n- C\n\n{TEXT.strip()}"),
        ('<p>b</p><ul><li><a href="/a">Python</a></li><li><a href="/b">Go</a></li><li><a href="/c">C</a></li></ul>'
         f"<p>{TEXT}</p>", f"b\n\n{TEXT.strip()}"),
        ('<h2 class="sr-only">Notes</h2><p>a <span class="sr-only">(opens elsewhere)</span></p>', "## Notes\n\na"),
        ('<div class="row_ad2x">Fill it first.</div><div class="sidebar_x4Yz">b</div>', "Fill it first."),
    ],
)  # fmt: skip
def test_elements_become_markdown(html: str, expected: str) -> None:
    assert read(f"<main>{html}</main>") == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<pre><code class="language-python">a\n\n  b  </code></pre>', "```python\na\n\n  b\n```"),
        ('<div class="highlight-yaml x"><div class="highlight"><pre>a: 1\n</pre></div></div>', "```yaml\na: 1\n```"),
        ('<div class="highlight-default"><pre>x</pre></div>', "```\nx\n```"),
        ('<pre><span class="linenos">1</span>x\n<span class="linenos">2</span>y</pre>', "```\nx\ny\n```"),
        ("<pre>a<br>b</pre>", "```\na\nb\n```"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ('<pre data-language="js"><code><div><div>a</div></div><div></div><div><div> b</div></div></code></pre>',
         "```js\na\n\n b\n```"),
        ("<pre>x<div>a</div>\n<div>b\n</div><p>c</p>d</pre>", "```\nx\na\nb\nc\nd\n```"),
        ("<pre><code><table><tr><td>a</td></tr><tr><td>b</td></tr></table></code></pre>", "```\na\nb\n```"),
        ('<pre><span class="ln">1</span>a\n<span class="ln">2</span>b</pre>', "```\na\nb\n```"),
        ('<table><tr><td class="linenos"><div class="linenodiv"><pre>1\n2</pre></div></td>'
         '<td class="code"><pre class="line-numbers">a\nb</pre></td></tr></table>', "```\na\nb\n```"),
        ('<table><tr><td><pre><span class="lnt">1\n2</span></pre></td><td><pre>a\nb</pre></td></tr></table>',
         "```\na\nb\n```"),
        ('<pre><pre><code class="language-rust">a</code></pre></pre>', "```rust\na\n```"),
        ('<pre class="highlight"><code class="ruby">a</code></pre>', "```ruby\na\n```"),
        ('<p>See <a href="https://b.org/x"> the <b>guide</b> </a>, <a href="/y">here</a>.</p>',
         "See [the guide](https://b.org/x) , here."),
        ('<p>Run <a href="https://b.org/x"><code>a</code></a>.</p>', "Run `a`."),
        ('<pre><code class="wide">a</code></pre>', "```\na\n```"),
        ('<div class="language-js"><span class="lang">js</span><pre>a</pre></div>', "```js\na\n```"),
        ('<div class="language-js"><p>JS</p><pre>a</pre><p>js</p></div>', "```js\na\n```\n\njs"),
    ],
)  # fmt: skip
def test_code_stays_as_it_is(html: str, expected: str) -> None:
    assert read(f"<main>{html}</main>") == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>```</p>", "\\```"),
        ("<p>a<br>~~~ b</p>", "a\n\\~~~ b"),
        ("<p># no heading</p>", "\\# no heading"),
        ("<p>a<br>---</p>", "a\n\\---"),
        ("<p>&lt;SCRIPT&gt; runs code</p>", "\\<SCRIPT> runs code"),
        ("<p>#1 of 2</p>", "#1 of 2"),
        ("<p><code>```</code> opens code</p>", "` ``` ` opens code"),
        ("<p><code>a`b</code></p>", "``a`b``"),
        ("<p><kbd>3</kbd><kbd>d</kbd></p>", "`3` `d`"),
    ],
)
def test_signs_of_markdown_in_a_paragraph_have_no_effect(html: str, expected: str) -> None:
    text = read(f"<main>{html}<h2>Next</h2><p>Text.</p></main>")
    assert text == f"{expected}\n\n## Next\n\nText."
    assert [block.text for block in read_markdown(text) if block.kind == "heading"] == ["Next"]


HIDDEN = (
    "<script>no</script>",
    "<style>no</style>",
    "<template>no</template>",
    "<noscript>no</noscript>",
    "<i hidden>no</i>",
    '<i aria-hidden="TRUE">no</i>',
    '<i style="display: NONE">no</i>',
    "<video>no</video>",
    '<i style="display:/* a */none">no</i>',
    '<i style="visibility/**/:hidden/*">no</i>',
    '<i style="font-size:0px">no</i>',
    '<i style="x:y;opacity: 0.0">no</i>',
    '<i style="visibility:hidden">no</i>',
)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a{}b</p>", "ab"),
        ("<h2>a{}b</h2>", "## ab"),
        ("<pre>a{}b</pre>", "```\nab\n```"),
        ("<p>so: <code>a{}b</code></p>", "so: `ab`"),
        ("<table><tr><th>a{}</th><th>b</th></tr></table>", "| a | b |\n|---|---|"),
        ("<ul><li>a{}</li></ul>", "- a"),
    ],
)
def test_what_nobody_sees_is_not_read(html: str, expected: str, hidden: str) -> None:
    assert read(f"<main>{html.format(hidden)}</main>") == expected


PANELS = "<div{}><p>Fill.</p></div><div{}><pre>drain</pre></div>"
TABS = "**By hand**\n\nFill.\n\n**By pump**\n\n```\ndrain\n```"


@pytest.mark.parametrize(
    "html",
    [
        '<ul role="tablist"><li role="tab" id="a">By hand</li><li role="tab" id="b">By pump</li></ul><p></p>'
        + PANELS.format(' role="tabpanel" aria-labelledby="a"', ' role="tabpanel" hidden aria-labelledby="b"'),
        '<ul role="tablist"><li role="tab">By hand</li><li role="tab">By pump</li></ul>'
        + PANELS.format(*[' role="tabpanel" hidden'] * 2),
        '<ul role="tablist"><li role="tab">By hand</li><li role="tab">By pump</li></ul>'
        + f"<div>{PANELS.format('', '')}</div>",
        '<input type="radio"><input type="radio"><div><label>By hand</label><label>By pump</label></div>'
        + f"<div>{PANELS.format('', '')}</div>",
        '<div><input type="radio"><label>By hand</label><input type="radio"><label>By pump</label></div>'
        + f"<div>{PANELS.format('', '')}</div>",
        '<input type="radio"><label>By hand</label><div>Fill.</div>'
        + '<input type="radio"><label>By pump</label><div><pre>drain</pre></div>',
    ],
)
def test_each_tab_has_its_label(html: str) -> None:
    assert read(f"<main><div>{html}</div></main>") == TABS


def test_lists_that_are_nested_deeply_keep_their_text() -> None:
    text = read("<main>" + "<ul><li>a" * 100 + "</main>")
    assert text.count("a") == 100


def test_labels_that_match_no_contents_are_left_out() -> None:
    tabs = '<ul role="tablist"><li role="tab">a</li><li role="tab">b</li></ul><div><p>c</p></div>'
    form = '<p><input type="radio"><label>a</label><input type="radio"><label>b</label></p><p>d</p>'
    assert read(f"<main>{tabs}{form}</main>") == "c\n\nd"


def test_rows_and_cells_that_nobody_sees_are_not_read() -> None:
    rows = "<tr><td>a</td><td>b</td></tr><tr hidden><td>no</td></tr><tr><td>c</td><td>d</td><td hidden>no</td></tr>"
    table = f"<table>{rows}<tbody style='display:none'><tr><td>no</td><td>no</td></tr></tbody></table>"
    assert read(f"<main>{table}</main>") == "- a: b\n- c: d"
    icons = "<table><tr><td><img alt=Note></td><td>Mind it.</td></tr></table>"
    assert read(f"<main>{icons}</main>") == "Mind it."


def test_what_is_nearly_hidden_is_read() -> None:
    assert read('<main><i style="opacity:0.5;fill-opacity:0">a</i> <i style="font-size:0.9em">b</i></main>') == "a b"


def test_text_that_nobody_sees_does_not_stand_in_for_a_text() -> None:
    page = read_page(b"<body><div hidden>no</div><p style='display:none'>no</p><script>no</script></body>", "")
    assert (page.text, page.plain_text) == ("", "")


@pytest.mark.parametrize("address", ["http://[", "http://[x", "http://\N{ACCOUNT OF}/"])
def test_addresses_that_are_none_do_not_cost_the_page(address: str) -> None:
    html = f'<base href="{address}"><link rel="canonical" href="{address}"><p>Fuel</p><a href="/tank">Tank</a>'
    page = read_page(html.encode(), "https://example.org/a")
    assert page.text.startswith("Fuel")
    assert (page.canonical, page.links) == ("", ("https://example.org/tank",))


@pytest.mark.parametrize(
    "main",
    [
        "<main>{text}</main>",
        '<div role="main">{text}</div>',
        "<article>{text}</article>",
        "<main><div>Menu</div><article>{text}</article></main>",
        '<div class="page"><div class="sidebar">Menu</div><div class="text">{text}</div></div>',
        '<body><form id="page"><div class="menu">Menu</div>{text}<form>Search</form></form></body>',
        '<body><div><a href="/1">News</a> <a href="/2">Shop</a> <a href="/3">Jobs</a></div><div>{text}</div></body>',
    ],
)
def test_what_surrounds_the_text_is_left_out(main: str) -> None:
    assert read(main.format(text=f"<p>{TEXT}</p>")) == TEXT.strip()


def test_sections_of_a_text_are_no_surroundings() -> None:
    section = '<div class="section" id="cookies"><h2>Cookies</h2><p>They are kept.</p></div>'
    assert "They are kept." in read(f"<main><p>{TEXT}</p>{section}</main>")
    assert "They are kept." not in read(f"<main><p>{TEXT}</p>{section.replace('section', 'box')}</main>")


def test_links_elsewhere_are_left_out_unless_they_are_the_page() -> None:
    links = "<ul>" + "".join(f'<li><a href="/{name}">{name}</a></li>' for name in ("tank", "valve", "pump")) + "</ul>"
    assert "valve" not in read(f"<main><p>{TEXT}</p>{links}</main>")
    assert read(f"<main><h1>Contents</h1>{links}</main>") == "# Contents\n\n- tank\n- valve\n- pump"


def test_a_page_that_must_not_be_indexed_has_no_text() -> None:
    html = b'<html><head><meta name="robots" content="noindex"></head><body>secret</body></html>'
    page = read_page(html, "https://example.org/")
    assert (page.text, page.plain_text) == ("", "secret")


@pytest.mark.parametrize(
    "part",
    [
        "<div><ul><li>x",
        "<nav></nav>x",
        "<table><tr><td>x",
        "<tr><td rowspan=9 colspan=9>x",
        "<math><annotation>x",
        "<pre><code>x",
        "<b>x</b> ",
        "<h1><a>x",
        "<!-- x -->y",
        '<div class="menu">x</div>',
        "<article>x",
        "<main>x</main>",
        '<a href="/x">x</a>',
        "<ul><li><a>x</a>",
        "<form>x",
        "<header>x",
        "<footer>x",
        "<br>",
        "<pre>x</pre>",
        '<span class="toc">x</span>',
        "<svg></svg><nav></nav>",
        "<title>a</title>",
        "<p>js</p><pre>a</pre>",
        '<h2 id="a">x<a href="#a">y</a></h2><a href="#a" class="sr-only">y</a>',
        '<ul role="tablist"><li role="tab">x</ul><input type="radio"><label>y</label>',
    ],
)
def test_the_time_grows_with_the_page(part: str) -> None:
    limits = Growth(quick_size=1000, quick_s=0.0, size=8_000 * len(part), min_s=0.025, max_s=5.0)
    page = Text("<html><body>", part, "</body></html>")
    assert find_growth(lambda text: read_page(text.encode(), "https://example.org/"), [page], limits) == ""


def test_one_long_row_does_not_make_the_table_larger_than_its_page() -> None:
    html = "<table><tr>" + "<td>a</td>" * 2000 + "</tr>" + "<tr><td>b</td></tr>" * 2000 + "</table>"
    text = read(f"<main>{html}</main>")
    assert text.count("a") == text.count("b") == 2000
    assert len(text) < len(html)
    row = f"<tr><td rowspan=9999 colspan=99999>{'a' * 5000}</td></tr>"
    assert len(read(f"<main><table>{row}{'<tr><td>b</td></tr>' * 2000}</table></main>")) < 200_000


@pytest.mark.parametrize("unit", ["<div>x</div>", "<div>", "<p></p>\n", "<code>x</code>", '<i class="ln">1</i>'])
def test_the_time_grows_with_the_code(unit: str) -> None:
    limits = Growth(quick_size=9, quick_s=0.0, size=120_000, min_s=0.1, max_s=10.0)
    assert find_growth(read, [Text("<pre>", unit, "</pre>")], limits) == ""


def test_comments_take_a_time_that_grows_with_their_number() -> None:
    limits = Growth(quick_size=9, quick_s=0.0, size=720_000, min_s=0.2, max_s=10.0)
    assert find_growth(read, [Text("", "<!--x-->y", "")], limits) == ""


@pytest.mark.parametrize(("above", "title"), [("<h1>Tank</h1>", "Tank"), ("", "The site")])
def test_a_heading_in_a_cell_is_no_title_of_a_page_that_has_another(above: str, title: str) -> None:
    table = "<table><tr><td><h1>Cell</h1></td></tr></table>"
    html = f"<html><head><title>The site</title></head><body>{table}{above}<p>{TEXT}</body></html>"
    assert read_page(html.encode(), "https://example.org/").title == title
