"""AsciiDoc as blocks: its delimiters, attributes, conditions and macros, and none of them in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from core.markup.document import Block
from core.markup.writer import write_markdown
from knowledge.formats.asciidoc import read_asciidoc


def read(text: str) -> str:
    return write_markdown(read_asciidoc(text))


def walk(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from walk(block.children)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[NOTE]\n====\nThe broker listens on port 9092.\n====", "> **Note**\n>\n> The broker listens on port 9092."),
        ("****\nBackups run at three.\n****\n\nRestore.", "> Backups run at three.\n\nRestore."),
        ("--\nCall the helpdesk.\n--", "Call the helpdesk."),
        ("a\n\n////\nThe secret price list.\n////\n\n// b\nc", "a\n\nc"),
        ("[source,markdown]\n----\n```ruby\nputs 1\n```\n----\n\nText.",
         "````markdown\n```ruby\nputs 1\n```\n````\n\nText."),
        ("....\nliteral *x*\n....", "```\nliteral *x*\n```"),
        ("[source,java]\n----\na(); // <1>\nb(); <2>\n----\n<1> One\n<2> Two",
         "```java\na(); // (1)\nb(); // (2)\n```\n\n1. One\n2. Two"),
        ("[source,xml]\n----\n<a/> <!--1-->\n<b/> <2>\n----", "```xml\n<a/> <!-- (1) -->\n<b/> <!-- (2) -->\n```"),
        (":hide-uri-scheme:\n\nhttps://a.org/b. Or https://c.org[C].",
         "[a.org/b](https://a.org/b). Or [C](https://c.org)."),
        (":hide-uri-scheme:\n\nSee \\https://a.org, please.", "See https://a.org, please."),
        ("Ticks ``` and ````, `a.b``, the xref:x.adoc[`c()]` function, `<I~1~>`.",
         "Ticks `` ` `` and ` `` `, `` a.b` ``, the `c()` function, `<I₁>`."),
        ("`a-\\*` and `b-*`, `\\__x` or `__y`, `-[:N]\\->*`, `\\((()-[])->())`, member\\'s",
         "`a-*` and `b-*`, `__x` or `__y`, `-[:N]->*`, `((()-[])->())`, member's"),
        ("Say +2015+01:00+, +a + b+ and **A `*` b** *c*d*.", "Say 2015+01:00, a + b and **A `*` b** **c*d**."),
        (". a\n+\n----\nb\n----\ngoes on\n\n. c\n\nText", "1. a\n\n   ```\n   b\n   ```\n\n   goes on\n\n2. c\n\nText"),
        ("|===\n|A |B\n\n1.2+|x |y\n|z\n1.+|v |w\n|===", "| A | B |\n|---|---|\n| x | y |\n|  | z |\n| v | w |"),
        ("A _*_ and *^1,2^* for *a*.", "A * and **1,2** for **a**."),
        ("See <<set-up>>.\n\n== Set Up", "See Set Up.\n\n## Set Up"),
        ("See <<tldr>>, <<use-a_b>> or <<_what_s_c_1>>.\n\n== TL;DR\n\n== Use `a_b`\n\n== What s/c.1",
         "See TL;DR, Use `a_b` or what s c 1.\n\n## TL;DR\n\n## Use `a_b`\n\n## What s/c.1"),
        ("Wait... a -> b => c <- d <= e, {empty}--{empty} f....g `h->i`",
         "Wait… a → b ⇒ c ← d ⇐ e, — f....g `h->i`"),
        ("----\na <.>\nb <.> <3>\nc <21>\n----", "```\na ①\nb ② ③\nc (21)\n```"),
        ("[source,yaml]\n----\na: b <1>\n----", "```yaml\na: b # (1)\n```"),
        ("[source,bash]\n----\n== no title\n----", "```bash\n== no title\n```"),
        ("----\na // \\<1>\nb # <2>\n---   <3>\nc -- <4>\nd \\<!--5-->\n----",
         "```\na // <1>\nb # (2)\n--- ③\nc -- (4)\nd <!--5-->\n```"),
        ("[source,asciidoc]\nimage::a.png[]\n\n[listing]\ntoc::[]\n\nimage::b.png[]",
         "```asciidoc\nimage::a.png[]\n```\n\n```\ntoc::[]\n```"),
        ("```js\nx\n```", "```js\nx\n```"),
        ('Use ((("a", "B (c d)", id="e")))((("B (c)")))it.', "Use it."),
        ("== A\n\n[.column]\n=== {empty}\nText.", "## A\n\nText."),
        ("++++\n<video/>\n++++\n\nText", "Text"),
        ("[stem]\n++++\nx^2\n++++", "```math\nx^2\n```"),
        ("====\n\n=====\ndeep\n=====\n\n====", "deep"),
        ("____\nQuoted.\n____", "> Quoted."),
        ('"It is\nquoted."\n-- Ada B., *Notes*', '> It is quoted.\n>\n> — Ada B., **Notes**'),
        ("> It is\n> quoted.\n> -- Ada", "> It is quoted.\n>\n> — Ada"),
        ('"So" --\n-- x', '"So" — — x'),
        (".T\n[quote, 'https://x.org[Ada, B.]', \"Notes\"]\nQuoted.",
         "T\n\n> Quoted.\n>\n> — [Ada, B.](https://x.org), Notes"),
        ('""\nQuoted.\n\nMore.\n""\n\nText.', "> Quoted.\n>\n> More.\n\nText."),
        (":compat-mode:\n\nSay ``OK'' or `no', `it's` x+y+z, `a+b+` +<pre>+ by the dogs' ``end.",
         "Say “OK” or ‘no’, `it's` x+y+z, `a+b+` `<pre>` by the dogs' ``end."),
        ("Say ``OK'' or +x+.", "Say ``OK'' or x."),
        (":compat-mode:\n\n'So', [b]'' +[a]\\`b`+ `[#i]\\_c_` +[#i]\\_c_+ +\\icon:d[2x]+ +\\<<e,F>>+ [x-]+{g}+ a' 'b'.",
         "*So*, `` [a]`b` `` `[#i]\\_c_` `[#i]_c_` `icon:d[2x]` `<<e,F>>` `{g}` a' *b*."),
        ("Mail \\ann@x.org, \\&#8201; `\\&#169; &#169;` \"`a '`b`' c`\".",
         "Mail ann@x.org, \\&#8201; `&#169; ©` “a ‘b’ c”."),
        ("\"icon:gear[] > Up\" icon:y[]\n\n* icon:b[] See https://x.org[^] [[c]].",
         "\"gear > Up\"\n\n- See https://x.org."),
        ("`a($b = `, c)`, `it`s`, `\\`` `" + "x, " * 300 + "y`, so `z'. Then `a`.",
         "``a($b = `, c)``, ``it`s``, `` \\` `` `" + "x, " * 300 + "y`, so \\`z'. Then `a`."),
        ("= T\n:toc:\n// c\nThe Team <docs@x.org>\n{revnumber}, {revdate}\n:a: b\n\nText {a}.", "# T\n\nText b."),
        ("[cols=\"1m,2\" options='header']\n|===\n|A\n|B\n\n|c\n|d\n|===", "| A | B |\n|---|---|\n| `c` | d |"),
        ("> a\n> b", "> a b"),
        ("[NOTE]\n> a", "> **Note**\n>\n> \\> a"),
        ("> > What?\n>\n> This:\n>\n> * c\n> * d\n\n>e", "> > What?\n>\n> This:\n>\n> - c\n> - d\n\n\\>e"),
        ("The plugins`' page, 'a`' and '`b`' (C) (TM), \\(R)", "The plugins’ page, 'a’ and ‘b’ © ™, (R)"),
        ("who icon:truck[2x, alt=shipped] it icon:x[alt=\"is, so\"] icon:y[2x]", "who shipped it is"),
        ("The button (icon:play[]) of feature:x-3.0[display=The X 3.0, role=y] and config:port[ ].",
         "The button (play) of The X 3.0 and port."),
        (':way: pass:[<svg class="x"><use href="#y"/></svg>]\n:word: <name>\n\nSee https://x.org[X{way}] or {word}.',
         "See [X](https://x.org) or \\<name>."),
        ("A driver <!-- optional --> of `<!-- x -->`.", "A driver of `<!-- x -->`."),
        ("[source,yaml]\n---\na: 1\n\nText.", "```yaml\n---\na: 1\n```\n\nText."),
        ("= T\nAnn Lee <a@x.org> and Bo Li <b@x.org>\nv0.1, 2022-04-28\n:status: done\n\nIt is {status}.",
         "# T\n\nIt is done."),
        (".A title\n====\nText.\n====\n\n.B\nc", "A title  \nText.\n\nB  \nc"),
        ("====\n[quote]\n# no heading\n====", "> \\# no heading"),
        ("Date: :: Today", "**Date:** Today"),
        ("One.\n:_mod-docs-content-type: A\n\n* a\n:_x: y\n\nTwo.\n:z: no entry",
         "One.\n\n- a\n\nTwo. :z: no entry"),
        ("[.key]##Since##[.value.wide]##1.0## or [.a]##b##c and ##d##[.e]#f#", "Since 1.0 or bc and df"),
        ("pass:[<!-- lint off -->]\n\nRun pass:[it<br>] pass:[<!-- a -- b -->]now &amp; then.", "Run it now & then."),
        ("Set `_name_`, `*key*` or `a_b_c` by `*args, **kwargs` and `*/*`.",
         "Set `name`, `key` or `a_b_c` by `*args, **kwargs` and `*/*`."),
        ("[subs=+macros]\n----\n*a* pass:quotes[is *b*] pass:[*c*]\n----", "```\n*a* is b *c*\n```"),
        (":u: https://&lt;host&gt;\n\n[subs=\"+attributes,+macros\"]\n----\nGET pass:a,q[{u}]/x &lt;\n----",
         "```\nGET https://<host>/x &lt;\n```"),
        (". a\n+\n----\nx\n----\n<1> b\n+\n. c\n+\nd", "1. a\n\n   ```\n   x\n   ```\n\n   1. b\n\n2. c\n\n   d"),
        ("* a\n** b\n+\n* c", "- a\n  - b\n- c"),
        ("|===\n| A | B\n\n| 11.1+\n| 7.6 +\n7.2 +\n\n| 2 *\n| 3\n|===",
         "| A | B |\n|---|---|\n| 11.1+ | 7.6; 7.2 |\n| 2 * | 3 |"),
        ("|===\na| [[x]]`link:#x[a.b]`\n\nOne.\na|\n  two\n|===", "| `a.b` One. |\n|---|\n| `two` |"),
        ("[subs=+quotes]\n----\nrm [.var]_name_ *now* a_b_c *.log *.txt\n----",
         "```\nrm name now a_b_c *.log *.txt\n```"),
        ("[subs=quotes]\n----\nrun _<my_id>_ *a_b* x.y._<a_b>_}' _a_b c_d_ e_\n----",
         "```\nrun <my_id> a_b x.y.<a_b>}' a_b c_d e_\n```"),
        ("menu:Apps and keys[Keys > New], menu:File[Quit], menu:Edit[]",
         "Apps and keys → Keys → New, File → Quit, Edit"),
        ("* a\n+\n** b", "- a\n  - b"),
        ("|===\na| xref::b.adoc#c[Top]\n| 1\n|===", "- Top\n- 1"),
        ("[cols=\"1,a\"]\n|===\n| A | B\n\n| x\n|\n----\na:\n  b\n----\n\n* c\n* d\n\n| y\n| z\n|===",
         "- x\n\n  ```\n  a:\n    b\n  ```\n\n  • c • d\n\n| A | B |\n|---|---|\n| y | z |"),
        ("[graphviz]\n----\ndigraph L { N0 }\n----\n\nText", "Text"),
        ("WARNING: Mind\nthis.", "> **Warning**\n>\n> Mind this."),
        ("[TIP]\n.Faster\n====\nText.\n====", "> **Tip: Faster**\n>\n> Text."),
        ("image::a.png[Alt]\n\ntoc::[]\n\nvideo::x[]\n\n'''\n\n<<<\n\nText", "---\n\n---\n\nText"),
        ('[source,sh,subs="+quotes,+attributes"]\n----\nrun __<my_id>__ $\\{HOME} **-v** a_b_c\n----',
         "```sh\nrun <my_id> ${HOME} -v a_b_c\n```"),
        ("image::A plan.svg[,100]\n\nText", "Text"),
        ("[indent=2]\n----\n    a\n      b\n----", "```\n  a\n    b\n```"),
        ("[indent=0]\n----\n  a\n----\n\n----\n  a\n   b\n----", "```\na\n```\n\n```\n  a\n   b\n```"),
        (" $ cmd\n   --flag", "```\n$ cmd\n  --flag\n```"),
        ("----\nnobody closes it", "```\nnobody closes it\n```"),
    ],
)  # fmt: skip
def test_blocks(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":port: 9092\n:url: https://a.example\n\nPort {port}, see {url}/p[the *list*] or {url}/q.",
         "Port 9092, see [the **list**](https://a.example/p) or https://a.example/q."),
        (":port: 1\n\n $ start --port {port}", "```\n$ start --port {port}\n```"),
        ("= T\n:toc:right\n:about: The tool\nThat mends.\n:more: And \\\n  more.\n\n{about} {more}",
         "# T\n\nThe tool That mends. And more."),
        (".Two\nimage:a.png[x]\n\n.One\nimage::b.png[]\n\n.Three\n{empty}\n\nTerm::\n\n{empty}\n\n. a",
         "Two\n\nOne\n\nThree\n\n**Term**:\n\n1. a"),
        ("[start=3]\n. a\n\nb\n\n[start=x]\n. c", "3. a\n\nb\n\n1. c"),
        ("|===\n| A | B\n\n| c or +\nD +\nE\n| f + +\nG\n|===", "| A | B |\n|---|---|\n| c or D; E | f + G |"),
        ("|===\n| A | B\n\n////\n| c | d\n////\n// x\n| e\n// y\n| f\n|===", "| A | B |\n|---|---|\n| e | f |"),
        ("[subs=normal]\n----\n[.a]#b# xref:c.adoc[D, window=_blank] # e # xref:f[]\n----\n\nbtn:[\\+] kbd:[Ctrl+\\]]",
         "```\nb D # e # xref:f[]\n```\n\n**+** `Ctrl+]`"),
        (":compat-mode:\n\n'He don't', ``**__a__**b``, `*_c_*`.", "*He don't*, `ab`, `*_c_*`."),
        ("xref:a:index.adoc[], xref:index.adoc[] or ``**__a__**b`` `*_c_*`.", "a, index or `ab` `c`."),
        ("....\n\\include::a.adoc[]\n....", "```\ninclude::a.adoc[]\n```"),
        ("----\n\\ifdef::x[]\nText\n\\endif::[]\n----", "```\nifdef::x[]\nText\nendif::[]\n```"),
        ("----\n\\ifeval::[1 > 2]\n----", "```\nifeval::[1 > 2]\n```"),
        ("the `{backtick}`, a `{asterisk}` and {asterisk}x{asterisk}", "the `` ` ``, a `*` and \\*x\\*"),
        ("See https://x.example/{tag}/a[the samples].", "See the samples."),
        (f"https://a.example/#{'eNqV' * 80}[Try it] now.", "Try it now."),
        ("link:https://{host}/b[*there*] and https://x.example/c[here]", "**there** and [here](https://x.example/c)"),
        ("mailto:{who}@x.example[us]", "us"),
        (":v: 2\n\n[source,subs=\"+attributes\"]\n----\nv{v} {w}\n----\n\n----\nv{v}\n----",
         "```\nv2 {w}\n```\n\n```\nv{v}\n```"),
        (":a: one \\\n   two\n\n{a}", "one two"),
        (":a : one\n:b  : two\n:c: three\n\n{a} {b} {c}", "one two three"),
        (":a b: c", ":a b: c"),
        (":a: 1\n:!a:\n\nx{a}{nbsp}{cpp}, C{plus}{plus}", "x{a} C++, C++"),
        (":a: pass:q[*b*]\n\n{a}", "**b**"),
        (":a: {a}{a}x\n" * 40 + "\nText", "Text"),
        ("{missing}/x[the page]", "the page"),
        ("ifdef::x[]\nno\nendif::[]\nifndef::x[]\nyes\nendif::x[]\nifdef::x[no]\nifndef::x[and]", "yes and"),
        (":x:\n\nifdef::x,y[one]\nifdef::x+y[two]\nifdef::y[]\nifdef::x[]\nthree\nendif::[]\nendif::[]", "one"),
        (":v: 3\n\nifeval::[{v} >= 2]\na\nendif::[]\nifeval::[\"{v}\" == \"2\"]\nb\nendif::[]", "a"),
        ("= Title\nAda Lovelace <ada@a.example>\nv1.2, 2024-01-01\n:toc:\n\nText", "# Title\n\nText"),
        ("= Title\n\nText", "# Title\n\nText"),
        ("[[id]]\n[discrete]\n== A\n\n[#b.c]\nText\n\nOld\n---", "## A\n\nText\n\n## Old"),
    ],
)  # fmt: skip
def test_attributes_conditions_and_headings(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*b* _i_ `c` #m# **un**con __i__t H~2~O x^2^", "**b** *i* `c` m **un**con *i*t H₂O x²"),
        ("+7 days+ `+{x}+` `a*b*` 2 * 3 f(*args) a_b_c", "7 days `{x}` `a*b*` 2 * 3 f(*args) a_b_c"),
        ("kbd:[Ctrl+C] btn:[Stop] menu:File[Open > Recent]", "`Ctrl+C` **Stop** File → Open → Recent"),
        ("xref:a/b.adoc#c[The page] xref:ROOT:a_b.adoc[] <<x,there>> <<y>> xref:a:safe/index.adoc[]",
         "The page a b there y safe"),
        ("link:a.pdf[PDF^] https://a.example[site,window=_blank] mailto:a@b.example[]",
         "PDF [site](https://a.example) [a@b.example](mailto:a@b.example)"),
        ("image:a.png[x] a((term))(((hidden)))b.footnote:[See xref:a.adoc[A].]", "atermb. (See A.)"),
        ("icon:lock[] [[a]]`link:#a[`x.y`]` `xref:b.adoc[z]`", "`x.y` `z`"),
        ("javadoc:org.a.B[] issue:12[] x:y[z w]", "`org.a.B` 12 x:y[z w]"),
        ("ref_of:a_b,true,x/y[] and word:RBAC[] as term:a-b[]", "`a_b` and RBAC as a-b"),
        ("`https://x.org/a[the a]` `link:b.html[b]` `xref:c.adoc[`c`]` `x[1]`", "`the a` `b` `c` `x[1]`"),
        ("cp --all a--b, -- and --", "cp --all a—b, — and —"),
        ("(x)--(y) run --no-a -b", "(x)--(y) run --no-a -b"),
        ("\\*no* \"`q`\" a -- b &lt;&#39; std::vector", "\\*no\\* “q” a — b <' std::vector"),
        ("`C++`, `i++`, `a+`, `+ b`, `+a\nb+`, `+`", "`C++`, `i++`, `a+`, `+ b`, `a b`, `+`"),
        ("using {url}[the `+` mark], `a{plus}b` and `&#43;`", "using the `+` mark, `a+b` and `+`"),
        ("one +\ntwo\n// not this\nthree", "one  \ntwo three"),
        ("one +\n +\ntwo + three", "one  \ntwo + three"),
        ("`a=__<b_c>__` `pass:c,q[https://__<d>__]/e` __<f_g>__ $$*h*$$ conf_ref:a,b[`i`]",
         "`a=<b_c>` `https://<d>/e` *<f_g>* \\*h\\* `i`"),
        ("`\\https://a.example` `C:\\temp` `++`AND`++` `+<>+`", "`https://a.example` `C:\\temp` `` `AND` `` `<>`"),
        ("xref::a/b.adoc#c[`sum()`], <<x,the `<saml:Request>` url>>", "`sum()`, the `<saml:Request>` url"),
        ("a footnote:[See pass:c,macros[xref:s.adoc#n[the *one*]].] pass:[*b*]", "a (See the **one**.) \\*b\\*"),
        ("pass:q[<u>under *me*</u>] +++<u>a</u>+++ pass:m[<i>b</i>]", "under **me** a b"),
        ("the page{empty}footnote:[A note.], a wordfootnote:[*B*]", "the page (A note.), a word (**B**)"),
        ("Search<<n, ^[1]^>>, <<r, ^1^>>, https://a.b[it^], xref:a.adoc[2^n^]", "Search[1], ¹, [it](https://a.b), 2ⁿ"),
        ("pass:c,q[<u>*a*</u>]", "\\<u>**a**\\</u>"),
    ],
)  # fmt: skip
def test_marks_become_those_of_markdown(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "reference",
    [
        "<<chain>>",
        "<<chain,>>",
        "<<#chain>>",
        "xref:#chain[]",
        "<<_the_filter_chain>>",
        "<<the-code>>",
        "<<with-id>>",
        "<<below>>",
    ],
)
def test_a_reference_without_a_text_shows_the_title_of_what_it_leads_to(reference: str) -> None:
    text = f"See {reference} or <<other-page>>.\n\n[[chain]]\n[role=x]\n== The filter *chain*\n\n"
    text += "[#the-code]\n.The filter *chain*\n----\nx\n----\n\n[[none]]\nText.\n\n"
    text += "[source,java,id=with-id]\n.The filter *chain*\n----\nx\n----\n\n"
    text += ".The filter *chain*\n[%header]\n[[below]]\n|===\n|x\n|===\n"
    assert read_asciidoc(text)[0].text == "See The filter **chain** or other page."
    assert read("<<a>>\n\n[[a,its text]]\nText.") == "its text\n\nText."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* a\ngoes on\n** b\n*** c\n* d\n\n- e", "- a goes on\n  - b\n    - c\n- d\n  - e"),
        (". a\n.. b\n. c\n\n5. x", "1. a\n   1. b\n2. c\n   1. x"),
        ("* a\n+\n----\nx\n----\n+\nmore\n\n* b\n\nText", "- a\n\n  ```\n  x\n  ```\n\n  more\n\n- b\n\nText"),
        ("* a\n+\n.Linux\n+\n----\nx\n----", "- a\n\n  Linux\n\n  ```\n  x\n  ```"),
        ("* [*] done\n* [ ] open", "- [x] done\n- [ ] open"),
        ("a:: A\nb::\n  B\n+\nmore\n\nc::\n\nC", "**a**: A\n\n**b**: B\n\nmore\n\n**c**: C"),
        ("a::\nb:: both\n* not", "**a, b**: both\n\n- not"),
        ("[horizontal]\nCPU;; fast", "**CPU**: fast"),
        ("* a\n\n  literal", "- a\n\n  ```\n  literal\n  ```"),
        ("* a\n//-\n\nText", "- a\n\nText"),
        ("[tabs]\n======\nJava::\n+\n[source,java]\n----\nint x;\n----\nShell::\n+\n--\nRun it.\n--\n======",
         "**Java**\n\n```java\nint x;\n```\n\n**Shell**\n\nRun it."),
        ("[tabs]\n====\nLinux::\n+\napt\nMac::\n+\nbrew\n====", "**Linux**\n\napt\n\n**Mac**\n\nbrew"),
        (". a\n+\n----\nx\n----\n+\n<1> b\n\n. c", "1. a\n\n   ```\n   x\n   ```\n\n   1. b\n\n2. c"),
        ("One\n+\n----\nx\n----\n\nTwo +\nthree + four", "One\n\n```\nx\n```\n\nTwo  \nthree + four"),
        ("* a\n+\nmore\n* b\n+\none\n+\ntwo", "- a\n\n  more\n\n- b\n\n  one\n\n  two"),
        ('[source,java,role="primary"]\n.Java\n----\na();\n----', "**Java**\n\n```java\na();\n```"),
    ],
)  # fmt: skip
def test_lists_and_tabs(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        ("|===\n|A |B\n\n|a |b \\| c\n|===", ("A", "B"), (("a", "b | c"),)),
        ('[cols="1,1",options="header"]\n|===\n|A\n|B\n|a\n|b\n|===', ("A", "B"), (("a", "b"),)),
        ("[%header,cols=2*]\n|===\n|A\n|B\n|a\n\n|b\n|===", ("A", "B"), (("a", "b"),)),
        ("[cols=\"1,a\"]\n|===\n|x\n|* li\n+\n----\nb\nc\n----\n* lo\n|===", (),
         (("x", "• li\n```\nb\nc\n```\n• lo"),)),
        ("[cols='1,2a']\n|===\n|x\n|* li\n* lo\n|===", (), (("x", "• li\n• lo"),)),
        ("|===\n|a |b\n2+|wide\n2*|twice\n|===", (), (("a", "b"), ("wide", ""), ("twice", "twice"))),
        ("|===\n|a 2+|b\n.2+|two .3+|three |x\n|y\n|z |w\n|===", (),
         (("a", "b", ""), ("two", "three", "x"), ("", "", "y"), ("z", "", "w"))),
        ("|===\n.2+|a\n.2+|b\n|===", (), (("a",), ("b",))),
        ("|===\n|+|addition\n0*|c 0+|d\n|===", (), (("+", "addition"), ("c", "d"))),
        (",===\na,b\nc,\"d,e\"\n,===", (), (("a", "b"), ("c", "d,e"))),
        ("[cols='1a,1']\n|===\n|\n== On *x*\n\ntext\n|== y\n|===", (), (("**On **x****\ntext", "== y"),)),
        ("|===\n|`x` |*y*\n|===", (), (("`x`", "**y**"),)),
        ("[cols=\"m,1\"]\n|===\n|[[a-b]]hz.port\n\nHZ_PORT\n|[[c]]Port\n|===", (), (("`hz.port HZ_PORT`", "Port"),)),
        ("[cols=\"1m,1a\"]\n|===\n|Value |Type\n\n|--a |* b\n|===", ("Value", "Type"), (("`--a`", "b"),)),
        ("[cols=\"1m,l\"]\n|===\n|*a* b_c, d\\*e |[[x]] *y*\n|===", (), (("`a b_c, d*e`", "`[[x]] *y*`"),)),
    ],
)  # fmt: skip
def test_tables(text: str, header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> None:
    table = read_asciidoc(text)[-1]
    assert (table.header, table.rows) == (header, rows)


def test_lines_are_those_of_the_document() -> None:
    text = """\
= Title
:x: y

One
two.

ifdef::nothing[]
no
endif::[]
[NOTE]
====
Three.
====

* four
+
----
a
----
"""
    lines = {block.text: (block.start_line, block.end_line) for block in walk(read_asciidoc(text)) if block.text}
    assert lines == {
        "Title": (1, 1),
        "One two.": (4, 5),
        "Note": (11, 13),
        "Three.": (12, 12),
        "four": (15, 18),
        "a": (18, 18),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "=",
        "====",
        "|===",
        "* ",
        "a::",
        "+",
        "[",
        "[]",
        ".",
        "--\n--\n--",
        "endif::[]",
        "[stem]\n++++\n++++",
        "[separator=]\n|===\n|a\n|===",
    ],
)
def test_remains_are_no_error(text: str) -> None:
    for block in walk(read_asciidoc(text)):
        assert 1 <= block.start_line <= block.end_line


def test_blocks_that_are_nested_too_deeply_keep_their_text() -> None:
    text = "\n".join("=" * (4 + depth) for depth in range(60))
    assert "deep" in read(text + "\ndeep")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Click image:gear.png[The gear,20] to go on.", "Click The gear to go on."),
        ('Click *Go* image:gear.png[alt="gear, large",width=20] and wait.', "Click **Go** gear and wait."),
        ("image:gear.png[gear] Settings. image:b.png[b] Next, image:c.png[] c image:d.png[d]", "Settings. Next, c"),
    ],
)
def test_a_picture_between_words_is_one(text: str, expected: str) -> None:
    assert write_markdown(read_asciidoc(text)) == expected


def test_counters_go_on() -> None:
    table = "|===\n| {counter: step} | a\n| {counter:step} | b\n|===\n\n"
    text = "{set:name:Rocket}{name}: {counter:part:A}{counter:part}, {counter2:step}{step}, \\{counter:step}."
    assert write_markdown(read_asciidoc(table + text)) == "- 1: a\n- 2: b\n\nRocket: AB, 3, {counter:step}."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (". One\n+\n* a\n* b\n\n+\nOf one.\n\n. Two", "1. One\n\n   - a\n   - b\n\n   Of one.\n\n2. Two"),
        ("* a\n** b\n*** c\n\n\n+\nOf a.\n* d", "- a\n\n  - b\n    - c\n\n  Of a.\n\n- d"),
        ("* a\n\n+\nOf a.\n* b", "- a\n\n  Of a.\n\n- b"),
    ],
)
def test_an_empty_line_above_a_plus_leads_to_an_outer_item(text: str, expected: str) -> None:
    assert write_markdown(read_asciidoc(text)) == expected


def test_a_condition_may_end_in_blanks() -> None:
    assert (
        write_markdown(read_asciidoc(":x:\n\nifdef::y[] \nNo.\nendif::[]\t\nifdef::x[]  \nYes.\nendif::[] \n"))
        == "Yes."
    )


@pytest.mark.parametrize("style", ["[,yaml]", "[source,yaml]", "[source]\n[,yaml]", "[,yaml,lines=1]"])
def test_code_keeps_the_language_that_stands_second(style: str) -> None:
    assert write_markdown(read_asciidoc(f"{style}\n----\na: b\n----")) == "```yaml\na: b\n```"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nlayout: a\ntitle: The page\n---\n:toc:\n\nText", "# The page\n\nText"),
        ("---\nlayout: a\n---\n= Page\n\nText", "# Page\n\nText"),
        ("One\n\n---\n\nTwo", "One\n\n---\n\nTwo"),
        ("* a\nimage::b.png[c, role=center]\n* d", "- a\n- d"),
        ("One\nimage::b.png[]\ntwo", "One two"),
        ("[source,asciidoc]\nimage::b.png[]", "```asciidoc\nimage::b.png[]\n```"),
        ("a +++b+++ ++++++ c +++d+++", "a b c d"),
        ("2^63^-1, H~2~O, 4^th^", "2⁶³-1, H₂O, 4th"),
        ("`a/\\{id\\}/b` and `\\{id}`", "`a/{id}/b` and `{id}`"),
        ("menu:Admin[Workflow &amp; Tags > All]", "Admin → Workflow & Tags → All"),
        ("pass:[[x-\\]+a+]", "[x-]+a+"),
    ],
)
def test_what_stands_around_the_text_is_none(text: str, expected: str) -> None:
    assert read(text) == expected


def test_items_are_as_deep_as_their_marks() -> None:
    marks = ["*" * depth for depth in range(1, 8)]
    text = write_markdown(read_asciidoc("\n".join(f"{mark} item" for mark in marks)))
    assert text == "\n".join(f"{'  ' * depth}- item" for depth in range(7))


def test_a_part_of_code_that_is_passed_on_has_no_marks() -> None:
    assert write_markdown(read_asciidoc("`++https++://a.b/_<me>_/c`")) == "`https://a.b/<me>/c`"
