"""What generators of sites make of Markdown that it does not say: their marks are no text, and hide none."""

from __future__ import annotations

import pytest

from core.markup.generators import GENERATOR, LIQUID, NUNJUCKS, PANDOC, PANDOC_BOOK, ZOLA
from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown


def read(text: str, *, is_mdx: bool = False) -> str:
    return write_markdown(read_markdown(text, is_mdx=is_mdx))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2<sup>63</sup>-1, 2^10^, 10<sup>-n</sup>", "2⁶³-1, 2¹⁰, 10⁻ⁿ"),
        ("H<sub>2</sub>O and CO~2~, 4<sup>th</sup>", "H₂O and CO₂, 4th"),
        ("H{sub}`2`O, 4{sup}`th`", "H₂O, 4th"),
        ("in any case<sup>[1](#note)</sup>", "in any case¹"),
        ('in any case<sup id="a1">[12](#f12)</sup>', "in any case¹²"),
        ("`set lists`<sup>1.53.0</sup>, items<sup>1,2</sup>", "`set lists` 1.53.0, items 1,2"),
        ("<p>all items<sup>1.56.0</sup></p>", "all items 1.56.0"),
        ("`2<sup>8</sup>` and ~/a~1~b", "`2<sup>8</sup>` and ~/a~1~b"),
        ("<p>2<sup>63</sup> or <sup>a</sup></p>", "2⁶³ or a"),
        ("<p>a <code>2<sup>8</sup></code></p>", "a `2⁸`"),
    ],
)
def test_what_stands_above_or_below_the_line_keeps_its_meaning(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<script>\nimport A from 'a'\n\nimport { b } from 'b'\n</script>\n\n<A :b='c'>\n\n# Hi\n\n</A>", "# Hi"),
        ("<style>\n.a { color: red }\n\n.b {}\n</style>\nText", "Text"),
        ("<script>\n\nText", ""),
        ("Write `<script>` here, or <script>a</script>b", "Write `<script>` here, or b"),
        ("    <script>\n    a\n    </script>", "```\n<script>\na\n</script>\n```"),
    ],
)
def test_a_script_ends_where_its_tag_does(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<div markdown="1">\nOne\n{: .label }\n\nTwo\n{: .label }\n</div>\n```js\nx\n```',
            "One\n\nTwo\n\n```js\nx\n```",
        ),
        ("<details markdown>\n<summary>More</summary>\n- a\n- b\n</details>", "**More**\n\n- a\n- b"),
        (
            "<figure markdown>\n  <figcaption markdown>On *[a]*</figcaption>\n</figure>\n\nB\n\n[a]: https://x.org",
            "On *[a](https://x.org)*\n\nB",
        ),
        ('<div class="markdown">\n*a*\n</div>', "*a*"),
        ("1. TOC\n{:toc}\n\nText", "Text"),
        ("- Contents\n{: toc levels=2}", ""),
    ],
)
def test_kramdown_and_python_markdown_read_markdown_in_html(text: str, expected: str) -> None:
    assert read(text) == expected


def test_lines_below_html_with_markdown_are_those_of_the_document() -> None:
    blocks = read_markdown('<div markdown="1">\nOne\n</div>\n\nTwo')
    assert [(block.text, block.start_line) for block in blocks] == [("One", 2), ("Two", 5)]


@pytest.mark.parametrize(
    ("text", "is_mdx", "expected"),
    [
        ("<>![Menu](a.png)</>", True, ""),
        ("<>\n\nText\n\n</>", True, "Text"),
        ("a <> b", False, "a <> b"),
        ("`a <> b`", True, "`a <> b`"),
    ],
)
def test_a_fragment_of_mdx_is_nothing_itself(text: str, is_mdx: bool, expected: str) -> None:
    assert read(text, is_mdx=is_mdx) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{% alert title='Note' %}}\nOne\n{{% /alert %}}.\n\nTwo", "> **Note**\n>\n> One\n\nTwo"),
        ("<p>in the form &lt;name&gt;, not <code>&lt;b&gt;</code></p>", "in the form \\<name>, not `<b>`"),
        ("Term\n: one\n: two\n\nOther\n: three", "**Term**: one\n\ntwo\n\n**Other**: three"),
        ("Inline `code`{l=python} and `more`{.js}", "Inline `code` and `more`"),
        ('```xml title="a/<name>.xml"\nx\n```', "**`a/<name>.xml`**\n\n```xml\nx\n```"),
        ("# Way <small>Crumbs</small> { id=way }", "# Way Crumbs"),
        ("![a](a.png){ align=left width=300 } Text\n![b](b.png){draggable=false}", "Text"),
        ("Press [Go](go.md){ .button .main } now", "Press Go now"),
        ("It ends{{ show('a/b', ['c',\n'd']) }} here", "It ends here"),
        ("<div>\n```sh\na\n\nb\n```\n</div>\n\nText", "```sh\na\n\nb\n```\n\nText"),
        ("It grows^[By *day*, see [it](https://x.org).]. 2^[3], `a^[bc]`",
         "It grows (By *day*, see [it](https://x.org).). 2^[3], `a^[bc]`"),
        ("```js\na // [\\!code focus]\nb // [!code focus]\n```", "```js\na // [!code focus]\nb\n```"),
        ("- a\n\n  @[code{1-2} ts](@tarn/a.ts)\n\n- b", "- a\n- b"),
        ("## A# ## {: #a }\n\n## C#", "## A#\n\n## C#"),
        ("| `#!py a` |\n|---|\n| `:::js b` |", "| `a` |\n|---|\n| `b` |"),
        ("The ^P^ of ^^more words^^, x^2 and a^^, b^^, `a^b^`", "The P of more words, x^2 and a^^, b^^, `a^b^`"),
        ("See [PEP 517][], [`b1`][], [2][who said?] and [5][]", "See PEP 517, `b1`, 2 and [5][]"),
        ("A\n\n@startuml\nA -> *B*\n\nC --> D\n@enduml\nB",
         "A\n\n```plantuml\n@startuml\nA -> *B*\n\nC --> D\n@enduml\n```\n\nB"),
        ("- a\n\n  @startuml\n\n  b", "- a\n\n  @startuml\n\n  b"),
        ("!!!note\n    Text\n\n!!!wow text", "> **Note**\n>\n> Text\n\n!!!wow text"),
    ],
)  # fmt: skip
def test_marks_of_generators(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<div>\n- a\n- b\n</div>", "- a\n- b"),
        ("Text\n\n<br />\n:::info\nNote\n:::", "Text\n\n> **Info**\n>\n> Note"),
        ("<details>\n<summary>More</summary>\n1. a\n</details>", "**More**\n\n1. a"),
        ('<blockquote>\nBy\n<a href="https://x.org">him</a>\n</blockquote>', "> By [him](https://x.org)"),
    ],
)
def test_mdx_reads_markdown_between_tags(text: str, expected: str) -> None:
    assert read(text, is_mdx=True) == expected


def test_twoslash_shows_code_that_stands_elsewhere_on_the_page() -> None:
    snippet = "```twoslash include main\na\n// - 1\nb\n```\n\n"
    assert read(f"{snippet}```ts twoslash\n// @include: main-1\nc\n```") == "```ts\na\nc\n```"
    assert read(f"{snippet}```ts twoslash\n// @include: main\n```") == "```ts\na\nb\n```"
    hidden = "```twoslash include cut\na\n// ---cut---\nb\n```\n\n"
    assert read(f"{hidden}```ts twoslash\n// @include: cut\n```") == "```ts\nb\n```"
    assert read("```ts twoslash\n// @include: missing\nc\n```") == "```ts\nc\n```"


@pytest.mark.parametrize(
    ("head", "language"),
    [
        ("---\nkernelspec:\n  display_name: Python 3\n  name: python3\n---\n", "python"),
        ("---\njupytext:\n  a: b\nkernelspec:\n  language: julia\n---\n", "julia"),
        ("", ""),
    ],
)
def test_cells_have_the_language_of_their_kernel(head: str, language: str) -> None:
    assert read(f"{head}\n```{{code-cell}}\nx = 1\n```\n") == f"```{language}\nx = 1\n```"
    assert read(f"{head}\n```{{code-cell}} ipython3\nx = 1\n```\n") == "```python\nx = 1\n```"


@pytest.mark.parametrize("below", ["7. Then this.", "![a](b.png)"])
def test_lines_with_less_of_a_margin_are_not_cut(below: str) -> None:
    text = f"1. One\n       - inner\n   {below}"
    assert "inner" in read(text)
    assert below[3:].strip(").") in read(text) or below.startswith("!")
    assert "b.png" not in read(text)


def test_a_line_of_dashes_that_is_escaped_is_no_long_dash() -> None:
    assert read("a\n\n\\----\n\na --- b") == "a\n\n\\----\n\na — b"


@pytest.mark.parametrize(
    ("info", "title"),
    [
        ("", "Note"),
        (" tip", "Tip"),
        (' warning title="My title"', "My title"),
        (' info "Quoted"', "Quoted"),
        (' example id="a" collapsible=true', "Example"),
    ],
)
def test_admonitions_of_mdbook(info: str, title: str) -> None:
    assert read(f"```admonish{info}\nText *a*.\n```") == f"> **{title}**\n>\n> Text *a*."


@pytest.mark.parametrize(
    ("generator", "text", "expected"),
    [
        (
            "",
            "Use `{{</* ref a */>}}`:\n\n```\n{{%/*/* b */*/%}}\n```",
            "Use `{{< ref a >}}`:\n\n```\n{{%/* b */%}}\n```",
        ),
        ("", "Write `\\{{#include a.rs}}` or `{{{< video a >}}}`", "Write `{{#include a.rs}}` or `{{< video a >}}`"),
        ("", "````\n```{{r, echo=FALSE}}\nx\n```\n````", "````\n```{r, echo=FALSE}\nx\n```\n````"),
        ("", "```{.md shortcodes=false}\n{{{< a >}}}\n```", "```md\n{{{< a >}}}\n```"),
        (ZOLA, "`{{/* a() */}}` `{%/* b */%}`", "`{{ a() }}` `{% b %}`"),
        ("", "`{{/* a() */}}`", "`{{/* a() */}}`"),
        (
            LIQUID,
            "`{% raw %}{{ a }}{% endraw %}`\n\n```\n{%- raw -%}{{ b }}\n{% endraw %}\n```",
            "`{{ a }}`\n\n```\n{{ b }}\n```",
        ),
        (NUNJUCKS, "`{% raw %}{{ a }}{% endraw %}`\n\n```\n{% raw %}\n```", "`{{ a }}`\n\n```\n{% raw %}\n```"),
        ("", "`{% raw %}{{ a }}{% endraw %}`", "`{% raw %}{{ a }}{% endraw %}`"),
    ],
)
def test_code_is_shown_without_the_escapes_of_its_generator(generator: str, text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text, names={GENERATOR: generator})) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\na: 1\nb:\n  c: 'x y'\n---\n`{{< meta a >}}` {{< meta b.c >}}", "`1` x y"),
        ('+++\n[params]\na = "1"\n+++\n```\n{{< param "a" >}}\n```\n{{% param b %}}', "```\n1\n```\n\n2"),
        (
            "---\na: 1\n---\n`{{{< meta a >}}}`\n\n```{.md shortcodes=false}\n{{< meta a >}}\n```",
            "`{{< meta a >}}`\n\n```md\n{{< meta a >}}\n```",
        ),
        ("Go {{< param c >}}+", "Go +"),
    ],
)
def test_a_page_has_the_values_of_its_front_matter_and_site(text: str, expected: str) -> None:
    assert write_markdown(read_markdown(text, names={"{{param b}}": "2"})) == expected


def test_what_kramdown_and_gitbook_leave_out_is_no_text() -> None:
    text = "Open {::nomarkdown}<b>{:/}Menu{::nomarkdown}</b>{:/}. {::comment}no{:/comment}{::options toc_levels='2' /}"
    assert read(text) == "Open Menu."
    assert read('- <i class="fa-code">:code:</i> Build it') == "- Build it"


def test_rows_without_outer_pipes_below_a_short_rule_are_a_table() -> None:
    text = "Functions:\n\nName | Port | Use\n:--- | :---\n`a|b` | 1 | *c*\nd | 2 |"
    assert read(text) == "Functions:\n\n| Name | Port | Use |\n|---|---|---|\n| `a\\|b` | 1 | *c* |\n| d | 2 |  |"


def test_headings_begin_the_tabs_of_a_tabset() -> None:
    text = "# A\n\n::: {.panel-tabset}\n\n## R\n\nx\n\n### In\n\n## Python\n\ny\n\n:::\n\nEnd."
    assert read(text) == "# A\n\n**R**\n\nx\n\n### In\n\n**Python**\n\ny\n\nEnd."


def test_pandoc_takes_a_heading_in_brackets_for_a_link_to_it() -> None:
    text = "# Set *up*\n\n## [New] {.a}\n\nSee [set *up*], [Other] and [Use].\n\n[Use]: https://a.example\n\n## Use"
    assert "See set *up*, [Other] and [Use](https://a.example)." in write_markdown(
        read_markdown(text, names={GENERATOR: PANDOC})
    )
    assert "See [set *up*]" in read(text)


def test_the_columns_of_a_table_that_make_cards_are_not_shown() -> None:
    text = (
        "<table><thead><tr><th>Who</th><th data-hidden data-card-target>To</th><th>What</th></tr></thead>"
        '<tbody><tr><td>All</td><td><a href="a.md">a.md</a></td><td>Read</td></tr></tbody></table>'
    )
    assert read(text) == "| Who | What |\n|---|---|\n| All | Read |"


def test_what_is_captured_stands_where_it_is_handed_to_an_include() -> None:
    text = (
        "{% capture a %}\nGET /a\n{% endcapture %}\n{% capture b %}Some *prose*{% endcapture %}\n\nBefore:\n\n"
        "{% include code-block.html\n  rest=a %}\n\nThen.\n\n{% include note.html text=b %}\n\nEnd."
    )
    assert read(text) == "Before:\n\n**rest**\n\n```\nGET /a\n```\n\nThen.\n\nSome *prose*\n\nEnd."
    assert read_markdown(text)[-1].start_line == 15
    assert read("{% capture a %}Kept{% endcapture %}") == "Kept"


def test_notes_and_references_of_pandoc_are_what_they_show() -> None:
    names = {GENERATOR: PANDOC, "sec-c": "The work"}
    figures = "![](a.png){#fig-a}\n\n```{r}\n#| label: tbl-b\nx\n```"
    text = f"See @fig-a, [@tbl-b] and @sec-c, not `@fig-a` or me@fig-a.\n\n{figures}"
    shown = "See Figure 1, Table 1 and The work, not `@fig-a` or me@fig-a."
    assert write_markdown(read_markdown(text, names=names)).startswith(shown)
    assert write_markdown(read_markdown("See @fig-a-b.", names={GENERATOR: PANDOC_BOOK})) == "See Figure a b."
    assert read("See @fig-a-b.") == "See @fig-a-b."
    text = "It is `x`^[As [here](https://a.example) and `y` say.], a word^[no] and x^[2]."
    assert read(text) == "It is `x` (As [here](https://a.example) and `y` say.), a word^[no] and x^[2]."


def test_what_may_be_chosen_is_no_text_of_a_table() -> None:
    choice = '<select><option value="a" label="Done"></option></select>'
    text = f"<table><tr><th>Status{choice}</th></tr><tr><td>Done</td></tr></table>"
    assert read(text) == "| Status |\n|---|\n| Done |"


def test_an_argument_of_a_tag_may_have_names_in_braces() -> None:
    text = '{% openapi-operation path="/a/{id}" method="get" %}\n[API](a.yml)\n{% endopenapi-operation %}\n\nEnd.'
    assert read(text) == "`GET /a/{id}`\n\n→ API\n\nEnd."


def test_code_of_any_engine_is_code_in_r_markdown() -> None:
    text = "```{r}\nx\n```\n\n```{asciicast}\n# Why?\ny *z*\n```\n\n```{note}\nText\n```"
    assert read(text) == "```r\nx\n```\n\n```\n# Why?\ny *z*\n```\n\n> **Note**\n>\n> Text"


def test_options_of_a_named_chunk_of_r_markdown_are_read() -> None:
    named = "```{r setup}\n#| include: false\nx\n```\n\n```{r b, fig.width=3}\n#| label: c\ny\n```"
    text = f"{named}\n\n```{{r, echo=FALSE}}\nz\n```"
    assert read(text) == "```r\ny\n```"


def test_tabs_of_vuepress_begin_with_their_labels() -> None:
    text = "::: code-tabs#shell\n\n@tab npm#npm\n\n```sh\nnpm i\n```\n\n@tab:active C\\#\n\nText\n\n:::\n\n@tab none"
    assert read(text) == "**npm**\n\n```sh\nnpm i\n```\n\n**C#**\n\nText\n\n@tab none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":   <!-- md:flag a -->\n    <!-- md:flag b --> Text\n    [c]\n\n    * d\n\nEnd", "Text [c]\n\n- d\n\nEnd"),
        ("<!-- md:flag big -->\n\nText <!-- md:flag big --> here", "Text here"),
        ("# A <!-- note here -->", "# A"),
    ],
)  # fmt: skip
def test_comments_beside_definitions_and_headings_are_gone(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- One\n\n:   Text\n\n    * a\n    * b", "- One\n\nText\n\n- a\n- b"),
        (":   !!! tip\n\n        Text\n\nEnd", "> **Tip**\n>\n> Text\n\nEnd"),
        ("| a | b |\n|---|---|\n| c | d |\n\n: The caption\n\nEnd",
         "| a | b |\n|---|---|\n| c | d |\n\nThe caption\n\nEnd"),
    ],
)  # fmt: skip
def test_a_definition_may_have_no_term(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The [`size`]\n[option.size] of it", "The `size` of it"),
        ("A [Big Font] [Big Fonts] or [Big Fonts].", "A [Big Font](https://x.org) or [Big Fonts](https://x.org)."),
        ("[Old] [Big Fonts], [Old] [Older]", "[Old] [Big Fonts](https://x.org), [Old] [Older]"),
        ("The [big fonts][^1] of it", "The [big fonts](https://x.org) (Old ones.) of it"),
        ("Not [this][^1]", "Not [this] (Old ones.)"),
        ("`a[x] [b.x]` and `[a-z][^b]`", "`a[x] [b.x]` and `[a-z][^b]`"),
    ],
)
def test_python_markdown_parts_a_link_from_its_name(text: str, expected: str) -> None:
    note = "[^1]: Old ones.\n\n" if "[^1]" in text else ""
    assert read(f"{text}\n\n{note}[Big Fonts]: https://x.org") == expected


@pytest.mark.parametrize("is_mdx", [False, True])
def test_a_component_that_leads_to_a_page_shows_its_name(is_mdx: bool) -> None:
    text = (
        'Read <Page link="guide/first-steps" /> and <Page\n to="/a#the-end"/>.\n\n| a |\n|---|\n| <Page href="b" /> |'
    )
    assert read(text, is_mdx=is_mdx) == "Read first steps and the end.\n\n| a |\n|---|\n| b |"
    assert read('Text\n\n<Page link="guide/a" />\n\n`<Page link="b" />`', is_mdx=is_mdx) == (
        'Text\n\n`<Page link="b" />`'
    )


def test_vue_puts_what_a_slot_holds_into_its_place() -> None:
    slots = ("  <template #code>\n\n  `b`\n\n  </template>\n", "  <template v-slot:text>\n\n  c\n\n  </template>\n")
    assert read('<button\n  class="a"\n  @click="b()"\n>\nGo\n</button>') == "Go"
    assert read(f"- a\n\n  <Show>\n{''.join(slots)}  </Show>") == "- a\n\n  `b`\n\n  c"


@pytest.mark.parametrize("name", ["$frontmatter.title", "frontmatter.title", "page.title", "page.meta.title"])
def test_a_page_names_values_of_its_front_matter(name: str) -> None:
    head = "---\ntitle: 'All of it'\ntags: [a]\n---\n\n"
    assert read(f"{head}# {{{{ {name} }}}}\n\nText") == "# All of it\n\nText"
    assert read(f"{head}# {{frontMatter.title}}\n\nText", is_mdx=True) == "# All of it\n\nText"
    assert read(f"{head}{{{{ page.tags }}}}") == "# All of it\n\npage.tags"


def test_files_of_a_playground_have_their_names() -> None:
    assert (
        read("::: sandpack#vue A b\n\n@file /a.vue\n\n```vue\nx\n```\n\n:::")
        == "**A b**\n\n**/a.vue**\n\n```vue\nx\n```"
    )
    text = "::: kotlin-playground\n\n@file main.kt\n\n```kotlin\nx\n```\n\n@settings\n\n```json\n{}\n```\n\n:::"
    assert read(text) == "**main.kt**\n\n```kotlin\nx\n```\n\n**settings**\n\n```json\n{}\n```"


def test_lines_of_a_drawing_are_those_of_the_document() -> None:
    drawing = read_markdown("A\n\n@startuml\na\n@enduml\n")[1]
    assert (drawing.kind, drawing.start_line, drawing.end_line) == ("code", 3, 5)
