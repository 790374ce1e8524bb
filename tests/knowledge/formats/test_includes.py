"""What a document includes stands in its place, whichever tool's way of writing it."""

from __future__ import annotations

import pytest

from knowledge.formats.includes import MAX_INCLUDED_CHARS, MAX_INCLUDES, Expansion, expand_includes

START = """import { Code, CodeB } from '@/code';

const code = `tarn start \\
  --all`;

export function StartStep() {
  return (
    <>
      <div className="mb">
        Start it, see{' '}
        <a className="b" href="https://tarn.example">
          the site
        </a>
        :
      </div>
      <Code title="sh" code={code} lang="bash" />
    </>
  );
}

export const Loaded = () => {
  const data = useData();
  if (!data) return <p>Loading</p>;
  return <p>{data.text}</p>;
};

export const Video = ({ title }) => (
  <iframe title={title} />
);

export const Rows = ({ rows }) => (
  <ul>
    {rows.map((row) => <li>{row}</li>)}
  </ul>
);
"""
INSTALL = """export function Install({ pkgs }) {
  const all = { npm: `npm i ${pkgs}`, bun: `bun add ${pkgs} -d`, deno: `deno add ${toDeno(pkgs)}`,
    aube: `aube ${named}` };
  const named = Array.isArray(pkgs) ? pkgs[0] : `@${pkgs.split(' ').join(' @')}.`;
  return <Tabs>{Object.entries(all).map(([name, text]) => <Tab name={name}>{text}</Tab>)}</Tabs>;
}
"""
CODE = r"""const ALL = [
  { name: 'a', kind: 'd', title: 'a.ts', code: `let a;` },
  { name: 'b', kind: 'd', title: "b.ts", language: 'ts', code: `let b = \`2\`;
b++;` },
];
export function Code({ name }) {
  const found = ALL.find((each) => each.name === name);
  if (!found) return <div>None of {name}</div>;
  return <pre lang={found.language}>{found.code}</pre>;
}
export function CodeB() {
  return <Code name="b" />;
}

import Text from './_text.mdx';

export function Shown() {
  return <Text />;
}
"""
FILES = {
    "docs/parts.mdx": '<section id="a">\nOne.\n</section>\n\n<section id="b">\nTwo.\n</section>\n',
    "m.cmake": "#[=[.rst:\nTitle\n=====\n#]=]\n\nset(a b)\n",
    "docs/part.rst": "One.\n\n.. begin\n\nTwo.",
    "docs/part.md": "---\ntitle: x\n---\nOne.\n\nTwo.",
    "docs/rules.md": "One.\n\n---\n\nTwo.\n\n---\n\nThree.",
    "docs/app.py": "import os\n\n\ndef run():\n    return 1\n\n\n# tag::a[]\nx = 1\n# end::a[]\n",
    "docs/lib.rs": "fn a() {}\n// ANCHOR: b\nfn b() {}\n// ANCHOR_END: b\n",
    "docs/_part.qmd": "Of Quarto.",
    "docs/frag.js": "a\n/// [x]\nb\n/// [x]\nc",
    "docs/s.md": "a\n<!-- --8<-- [start:x] -->\nb\n<!-- --8<-- [end:x] -->\nc",
    "docs/b.js": "import b from 'b';",
    "docs/_part.mdx": "Shown *once*.",
    "docs/_text.mdx": "import B from '@b'\n\nShown *once*.",
    "docs/app.js": "let a;\n// #region r\nlet b;\n// #endregion r\n// [!region v]\nlet c;\n// [!endregion]",
    "docs/part.adoc": "= Part\n\nText.",
    "docs/code.adoc": "== Part\n\nx = 1\n\n----\n= 2\n----\n\n== End",
    "docs/deep/a.rst": ".. include:: b.rst",
    "docs/deep/b.rst": "Deep.",
    "docs/_includes/part.html": "<b>{{ include.content }}</b>",
    "docs/fence.md": "```\ncode\n```",
    "outer.md": "Outer.",
    "src/steps/start.tsx": START,
    "docs/Install.jsx": INSTALL,
    "docs/Code.tsx": CODE,
    "docs/snippets/note.md": "A note.",
    "m/modules/ROOT/partials/p.adoc": "Partial.",
    "m/modules/other/examples/e.java": "int x;",
    "m/modules/other/pages/_partials/old.adoc": "Old.",
}


def expand(path: str, kind: str, text: str) -> str:
    return expand_includes(path, kind, text, FILES.get).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\n\n.. include:: part.rst\n   :start-after: begin\n\nB", "A\n\n\n\nTwo.\n\n\nB"),
        ("- item\n\n  .. include:: part.rst\n     :end-before: begin", "- item\n\n\n  One.\n\n"),
        (".. literalinclude:: app.py\n   :pyobject: run",
         "\n.. code-block:: python\n\n   def run():\n       return 1\n"),
        (".. literalinclude:: app.py\n   :lines: 5",
         "\n.. code-block:: python\n   :force:\n\n       return 1\n"),
        (".. literalinclude:: app.py\n   :lines: 1,4-5\n   :language: py",
         "\n.. code-block:: py\n\n   import os\n   def run():\n       return 1\n"),
        (".. include:: part.rst\n   :literal:\n   :start-line: 4", "\n.. code-block::\n\n   Two.\n"),
        (".. include:: /deep/a.rst", "\n\nDeep.\n\n"),
        (".. include:: missing.rst\n\nB", ".. include:: missing.rst\n\nB"),
        (".. include:: part.md\n   :parser: myst_parser.sphinx_\n\nB",
         "\n.. markdown::\n\n   One.\n   \n   Two.\n\n\nB"),
        ("- a\n\n  .. mdinclude:: part.md\n     :end-before: Two", "- a\n\n\n  .. markdown::\n\n     One.\n     \n"),
        (".. cmake-module:: ../m.cmake", "\nTitle\n=====\n"),
        (".. include:: part.md\n   :literal:\n   :end-before: Two", "\n.. code-block::\n\n   One.\n\n"),
    ],
)  # fmt: skip
def test_restructuredtext(text: str, expected: str) -> None:
    assert expand("docs/page.rst", "rst", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\n\n```{include} part.md\n```\n\nB", "A\n\nOne.\n\nTwo.\n\nB"),
        ("- A\n\n  ```js\n  --8<-- 'b.js'\n  ```", "- A\n\n  ```js\n  import b from 'b';\n  ```"),
        ("```{include} part.md\n\n```\n\nB", "One.\n\nTwo.\n\nB"),
        (":::{include} part.md\n:end-before: Two\n:::", "One.\n"),
        ("```{include} part.md\n---\nend-before: Two\n---\n```\nB", "One.\n\nB"),
        ("```{literalinclude} app.py\n:lines: 4-5\n```\nB", "```python\ndef run():\n    return 1\n```\nB"),
        ("```{literalinclude} fence.md\n```", "````\n```\ncode\n```\n````"),
        ("<include>./part.md</include>\nB", "One.\n\nTwo.\nB"),
        ("  <include>parts.mdx#b</include>", "  Two."),
        ("<include cwd meta='title=\"a.js\"'>\n  app.js#r\n</include>", '```javascript title="a.js"\nlet b;\n```'),
        ("<include>missing.md</include>", "<include>missing.md</include>"),
        ('--8<-- "part.md"', "One.\n\nTwo."),
        ('--8<-- "rules.md"', "One.\n\n---\n\nTwo.\n\n---\n\nThree."),
        ('  --8<-- "docs/s.md:x"', "  b"),
        ('--8<-- "note.md"', "A note."),
        ('--8<-- "s.md:1:1"', "a"),
        ("{* app.py ln[4:5] hl[5] *}", "```python\ndef run():\n    return 1\n```"),
        ('{* ../docs/app.py ln[1,5] title["app.py"] *}', "```python\nimport os\n    return 1\n```"),
        ("  {* missing.py hl[1] *}", "  {* missing.py hl[1] *}"),
        ("--8<--\npart.md\n../outer.md\n--8<--\nB", "One.\n\nTwo.\nOuter.\nB"),
        ("```rust\n{{#include lib.rs:b}}\n```", "```rust\nfn b() {}\n```"),
        ("{{#include lib.rs:1}} and \\{{#include lib.rs}}", "fn a() {} and \\{{#include lib.rs}}"),
        ("```js\n// [!include ~/docs/app.js:r]\n```", "```js\nlet b;\n```"),
        ("  # [!include @/docs/app.js:v]", "  let c;"),
        ("<!-- [!include /docs/app.js:1] -->", "let a;"),
        ("<<< @/docs/app.js#r{1-2 ts}", "```javascript\nlet b;\n```"),
        ("<<< ./docs/app.js", "```javascript\nlet a;\nlet b;\nlet c;\n```"),
        ("<<< ./missing.js", "<<< ./missing.js"),
        ("<!--@include: ./part.md-->", "One.\n\nTwo."),
        ("<!-- @include: @/part.md{2,} -->", "\nTwo."),
        ("<!--@include: ./docs/app.js{,2}-->", "let a;"),
        ("import P from './_part.mdx';\n\n<P name=\"x\" />\nB", "import P from './_part.mdx';\n\nShown *once*.\nB"),
        (
            "import T from 't'; import P from './_part.mdx'; import\nQ from './x.mdx'\n\n<P />",
            "import T from 't'; import P from './_part.mdx'; import\nQ from './x.mdx'\n\nShown *once*.",
        ),
        ("import\nP from './\\_part.mdx';\n\n<P />", "import\nP from './\\_part.mdx';\n\nShown *once*."),
        ('import P from "./_part.mdx" // b\n\n<P />', 'import P from "./_part.mdx" // b\n\nShown *once*.'),
        ("<P />", "<P />"),
        ('{{% include "part.md" %}}', "One.\n\nTwo."),
        ("{{< include _part.qmd >}}", "Of Quarto."),
        ("[a](part.md ':include')\n\n[b](deep/b.rst ':include :type=code')", "One.\n\nTwo.\n\n```\nDeep.\n```"),
        ("[a](frag.js ':include :type=code :fragment=x')", "```javascript\nb\n```"),
        (
            "```\n[a](part.md ':include')\n```\n[a](a.mp3 ':include')",
            "```\n[a](part.md ':include')\n```\n[a](a.mp3 ':include')",
        ),
        ("  {% include_relative part.md %}", "  One.\n\n  Two."),
        ('{{< readfile file="app.js" code="true" >}}', "```javascript\nlet a;\nlet b;\nlet c;\n```"),
        ("```python\n{!> ../docs/deep/b.rst !}\n```\n{!part.md!}", "```python\nDeep.\n```\nOne.\n\nTwo."),
        ('{% include part.html content="Mind it." %}', '{% include part.html content="Mind it." %}'),
        ('{{< readFile "deep/b.rst" >}}', "```\nDeep.\n```"),
        ("@[code{1,3} js](@docs/app.js)", "```js\nlet a;\nlet b;\n```"),
        (
            "- @[code](./app.js)\n  @[code](./app.js)",
            "- @[code](./app.js)\n  ```javascript\n  let a;\n  let b;\n  let c;\n  ```",
        ),
        ('{{< include "missing.md" >}} {{< readfile a.b.c >}}', '{{< include "missing.md" >}} {{< readfile a.b.c >}}'),
        ('--8<-- "https://a.example/x.md"', '--8<-- "https://a.example/x.md"'),
    ],
)
def test_markdown(text: str, expected: str) -> None:
    assert expand("docs/page.md", "markdown", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\n\ninclude::part.adoc[leveloffset=+1]", "A\n\n== Part\n\nText."),
        ("include::code.adoc[leveloffset=+1]", "=== Part\n\nx = 1\n\n----\n= 2\n----\n\n=== End"),
        ("----\ninclude::app.py[tag=a]\n----", "----\nx = 1\n----"),
        ("include::app.py[lines=1;4..5]", "import os\ndef run():\n    return 1"),
        (":dir: deep\n\ninclude::{dir}/b.rst[]", ":dir: deep\n\nDeep."),
        ("include::missing.adoc[opts=optional]", "include::missing.adoc[opts=optional]"),
    ],
)
def test_asciidoc(text: str, expected: str) -> None:
    assert expand("docs/page.adoc", "asciidoc", text) == expected


def test_families_of_antora() -> None:
    text = "include::partial$p.adoc[]\ninclude::other:example$e.java[]\ninclude::partial$../pages/x.adoc[]"
    expected = "Partial.\nint x;\ninclude::partial$../pages/x.adoc[]"
    assert expand("m/modules/ROOT/pages/sub/a.adoc", "asciidoc", text) == expected
    assert expand("m/modules/ROOT/pages/a.adoc", "asciidoc", "include::{partialsdir}/p.adoc[]") == "Partial."
    assert expand("m/modules/ROOT/pages/a.adoc", "asciidoc", "include::other:partial$old.adoc[]") == "Old."


def test_attributes_of_an_antora_component() -> None:
    files = {
        "docs/antora.yml": "name: a\nasciidoc:\n  attributes:\n    v: '2.1'\n    url: https://a.b/{v}@ # x\n    w: 1\n"
    }
    expansion = expand_includes("docs/modules/ROOT/pages/a.adoc", "asciidoc", "= T\n\nSee {url}.", files.get)
    assert expansion.text.split("\n") == [":v: 2.1", ":url: https://a.b/{v}", "= T", "", "See {url}."]
    assert expansion.lines == (1, 1, 1, 2, 3)


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        ("version: '2.1'", "page-component-version", "2.1"),
        ("version: 2.1 # x", "page-version", "2.1"),
        ("title: The Guide", "page-component-title", "The Guide"),
        ("version: v2\ndisplay_version: Two", "page-component-display-version", "Two"),
    ],
)
def test_what_a_component_of_antora_says_of_itself(field: str, name: str, value: str) -> None:
    files = {"antora.yml": f"name: a\n{field}\n"}
    expansion = expand_includes("modules/ROOT/pages/a.adoc", "asciidoc", f"In {{{name}}}.", files.get)
    assert expansion.text == f":{name}: {value}\nIn {{{name}}}."


@pytest.mark.parametrize(
    ("description", "entries", "expected"),
    [
        ("name: a\n", "// For editors.\n:product: Rocket\n:x!:\n", "Rocket"),
        ("name: a\nasciidoc:\n  attributes:\n    product: Comet\n", ":product: Rocket\n", "Comet"),
        (None, ":product: 'Rocket'\n", "Rocket"),
    ],
)
def test_attributes_for_editors_stand_for_those_of_a_playbook(
    description: str | None, entries: str, expected: str
) -> None:
    files = {"m/.asciidoctorconfig": entries} | ({"m/antora.yml": description} if description else {})
    expansion = expand_includes("m/modules/ROOT/pages/a.adoc", "asciidoc", "Run {product}.", files.get)
    assert expansion.text == f":product: {expected}\nRun {{product}}."
    assert "m/.asciidoctorconfig" in expansion.included_paths


def test_lines_lead_to_the_line_that_includes() -> None:
    expansion = expand_includes("docs/a.md", "markdown", 'A\n\n--8<-- "part.md"\n\nB', FILES.get)
    assert expansion == Expansion("A\n\nOne.\n\nTwo.\n\nB", (1, 2, 3, 3, 3, 4, 5), ("docs/part.md",))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("rst", ".. include:: ../../etc/passwd"),
        ("rst", ".. include:: /../../etc/passwd"),
        ("markdown", '--8<-- "../../../etc/passwd"'),
        ("markdown", "{{#include /etc/passwd}}"),
        ("markdown", "```{include} a\0b.md\n```"),
        ("asciidoc", "include::../../etc/passwd[]"),
        ("asciidoc", "include::/etc/passwd[]"),
    ],
)
def test_nothing_outside_is_asked_for(kind: str, text: str) -> None:
    asked_paths: list[str] = []
    expansion = expand_includes("docs/page", kind, text, asked_paths.append)
    assert expansion.text == text
    assert not any(path.startswith(("/", "..")) or "\0" in path for path in asked_paths)


def test_files_that_include_each_other_end() -> None:
    files = {"a.rst": "A\n\n.. include:: b.rst", "b.rst": "B\n\n.. include:: a.rst"}
    text = expand_includes("a.rst", "rst", files["a.rst"], files.get).text
    assert text.split() == ["A", "B", "..", "include::", "a.rst"]


def test_parts_of_a_long_file_are_shown_in_many_places() -> None:
    parts = "".join(f"# tag::{number}[]\n{number}\n# end::{number}[]\n" for number in range(20))
    files = {"long.adoc": parts + "// Comment.\n" * 20_000}
    text = "\n".join(f"include::long.adoc[tag={number}]" for number in range(20))
    assert expand_includes("a.adoc", "asciidoc", text, files.get).text == "\n".join(map(str, range(20)))


def test_what_is_included_is_limited() -> None:
    for size in (MAX_INCLUDED_CHARS, 1000):
        files = {"long.adoc": f"{'x' * size}\ny"}
        text = "include::long.adoc[]\n" * 30_000 + "include::long.adoc[lines=2]\n" * 30
        assert len(expand_includes("a.adoc", "asciidoc", text, files.get).text) < 2 * MAX_INCLUDED_CHARS


def test_what_doubles_with_every_level_is_limited() -> None:
    files = {f"{number}.md": f'--8<-- "{number + 1}.md"\n' * 10 for number in range(20)}
    expansion = expand_includes("0.md", "markdown", files["0.md"], files.get)
    assert len(expansion.text) < MAX_INCLUDES * 1000


def test_a_text_file_with_directives_includes_others() -> None:
    files = {"docs/part.txt": "The part."}
    text = ".. note::\n\n   Text.\n\n.. include:: part.txt\n"
    expansion = expand_includes("docs/a.txt", "text", text, files.get)
    assert "The part." in expansion.text
    assert expand_includes("docs/a.txt", "text", "Use #include:\n\n--8<-- 'part.txt'\n", files.get).lines == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<StartStep />",
            "<>\n  <div>\n    Start it, see{' '}\n    <a href=\"https://tarn.example\">the site</a>:\n  </div>\n"
            '  <Code title="sh" code={`tarn start   --all`} lang="bash" />\n</>',
        ),
        ("- <StartStep />", "- <StartStep />"),
        ("```jsx\n<StartStep />\n```", "```jsx\n<StartStep />\n```"),
        ("<Loaded />", "<Loaded />"),
        ('<Video title="Talk" />', '<Video title="Talk" />'),
        ("<Rows rows={[1]} />", "<Rows rows={[1]} />"),
        ('  <Install pkgs="a b" />', '  <Install npm="npm i a b" bun="bun add a b -d" aube="aube @a @b." />'),
        ('<Code name="b" />', '````ts title="b.ts"\nlet b = `2`;\nb++;\n````'),
        ("<CodeB />", '````ts title="b.ts"\nlet b = `2`;\nb++;\n````'),
        ('<Code kind="d" />', '<Code kind="d" />'),
        ('<Code name="c" />', '<Code name="c" />'),
        ("<Missing />", "<Missing />"),
        ("<A>\n  <Shown />\n</A>", "<A>\n\nimport B from '@b'\n\n  Shown *once*.\n\n</A>"),
    ],
)
def test_what_mdx_takes_from_code_stands_in_its_place(text: str, expected: str) -> None:
    head = "import {\n  Loaded,\n  Rows,\n  StartStep,\n  Video,\n} from '@/steps/start';\n"
    page = f"{head}import {{ Missing }} from './m';\nimport {{ Install }} from './Install.jsx';\n"
    page += "import { Code, CodeB, Shown } from './Code.tsx';\n\n"
    assert expand("docs/page.mdx", "markdown", page + text).removeprefix(page) == expected
