"""Whole pages as their makers write them: what a reader of the page sees is the passage, and nothing else."""

from __future__ import annotations

import pytest

from knowledge.chunking import chunk
from knowledge.ports import Document
from knowledge.sources.common.documents import detect_kind

ATTRIBUTES_ADOC = """\
:port: 9092
:url-docs: https://docs.example.org

= Broker guide

The broker listens on port {port}. See {url-docs}/ports[the port list] or link:ports.html[ports].

 $ bin/start --port {port}

////
Draft: the secret price list is in the vault.
////

Stop it with kbd:[Ctrl+C] or btn:[Stop] in menu:File[Quit]. The value +7 days+ is fixed.
"""
ATTRIBUTES_ADOC_PASSAGE = """\
# Broker guide

The broker listens on port 9092. See [the port list](https://docs.example.org/ports) or ports.

```
$ bin/start --port {port}
```

Stop it with `Ctrl+C` or **Stop** in File → Quit. The value 7 days is fixed."""
BLOCKS_ADOC = """\
= Broker guide

== Ports

[NOTE]
====
The broker listens on port 9092.
====

== Backup

****
Backups run at three in the morning.
****

Restore takes an hour.

--
Open block: call the helpdesk before a restore.
--
"""
BLOCKS_ADOC_PASSAGE = """\
# Broker guide

## Ports

> **Note**
>
> The broker listens on port 9092.

## Backup

> Backups run at three in the morning.

Restore takes an hour.

Open block: call the helpdesk before a restore."""
FENCE_ADOC = """\
= Format guide

== Fences

Fenced code works too.

[source,markdown]
----
```ruby
puts 1
```
----

The next section tells what to do on Windows.

== Windows paths

On Windows, set `PATH_STYLE` to `posix` before the first start.

== Limits

The limit is 200 rows per page.
"""
FENCE_ADOC_PASSAGE = """\
# Format guide

## Fences

Fenced code works too.

````markdown
```ruby
puts 1
```
````

The next section tells what to do on Windows.

## Windows paths

On Windows, set `PATH_STYLE` to `posix` before the first start.

## Limits

The limit is 200 rows per page."""
DOCUSAURUS_MDX = """\
---
title: Install the agent
sidebar_label: Install
---
import Tabs from '@theme/Tabs';
import TabItem from '@theme/TabItem';
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

# Install the agent

<Since v="3.2.5" />

<Tabs groupId="os">
  <TabItem value="debian" label="Debian and Ubuntu" default>

  ```bash title="shell"
  apt install agent   # needs root
  ```

  </TabItem>
  <TabItem value="mac" label="macOS">

  ```bash
  brew install agent
  ```

  </TabItem>
</Tabs>

<PackageManagerTabs command="add my-agent" />

:::warning[Root needed]
Run the installer as root.
:::

{/* a comment for editors: remove before release */}

The value is {props.version} here. <Highlight color="#25c2a0">Green</Highlight> is the default colour.

<Admonition type="tip" title="Proxy">Set HTTPS_PROXY before the first start.</Admonition>

<details>
<summary>How do I uninstall it?</summary>

Run `agent uninstall --purge`.

</details>

<Card title="Quick start" href="/start" description="Five minutes to your first agent" />
"""
DOCUSAURUS_MDX_PASSAGE = """\
# Install the agent

**Debian and Ubuntu**

**shell**

```bash
apt install agent   # needs root
```

**macOS**

```bash
brew install agent
```

> **Root needed**
>
> Run the installer as root.

The value is version here. Green is the default colour.

> **Proxy**
>
> Set HTTPS_PROXY before the first start.

**How do I uninstall it?**

Run `agent uninstall --purge`.

**Quick start**: Five minutes to your first agent"""
SMS_MDX = """\
# SMS providers

<Cards>
  <Card title="SNS" href="/sns">Learn how to use SNS to send SMS.</Card>
  <Card title="Telnyx" href="/telnyx">Learn how to use Telnyx to send SMS.</Card>
  <Card title="Twilio" href="/twilio">Learn how to use Twilio to send SMS.</Card>
</Cards>

{/* TODO: remove the test key sk-demo before the release */}

export const meta = { owner: "docs team" };

Send at most ten messages a second.
"""
SMS_MDX_PASSAGE = """\
# SMS providers

**SNS**: Learn how to use SNS to send SMS.

**Telnyx**: Learn how to use Telnyx to send SMS.

**Twilio**: Learn how to use Twilio to send SMS.

Send at most ten messages a second."""
START_MDX = """\
---
title: Quickstart
---
import { Step, Steps } from 'x';

<Steps>
    <Step>
        ## Start your server

        To start the server, run the following command:

        ```bash
        npm run serve
        ```
    </Step>
    <Step>
        ## Send a message

        Send the first message with the command below.

        ```bash
        npx hello send --to ann
        ```
    </Step>
</Steps>
"""
START_MDX_PASSAGE = """\
# Quickstart

## Start your server

To start the server, run the following command:

```bash
npm run serve
```

## Send a message

Send the first message with the command below.

```bash
npx hello send --to ann
```"""
TRIGGER_MDX = """\
---
title: Trigger a workflow
---

A workflow is triggered through the API.

<Tabs items={["Node.js", "Python"]}>
  <Tab value="Node.js">
```ts
await hello.trigger({ workflowId: "w1" });
```
  </Tab>
  <Tab value="Python">
```python
hello.trigger(workflow_id="w1")
```
  </Tab>
</Tabs>
"""
TRIGGER_MDX_PASSAGE = """\
# Trigger a workflow

A workflow is triggered through the API.

**Node.js**

```ts
await hello.trigger({ workflowId: "w1" });
```

**Python**

```python
hello.trigger(workflow_id="w1")
```"""
MYST = """\
# Backup

```{note}
The nightly backup starts at 03:00 UTC.
```

```{warning} Root needed
Run `backup init` as root, or nothing is written.
```

:::{tip}
Keep ninety days of backups.
:::

````{tab-set}
```{tab-item} Debian
Install it with `apt install backup`.
```
```{tab-item} Fedora
Install it with `dnf install backup`.
```
````

See {ref}`restore` and {doc}`guide/restore` or {py:func}`backup.run`, with {{ version }}.

(restore)=
## Restore

```{list-table} Times
* - Size
  - Time
* - 1 TB
  - two hours
```
"""
MYST_PASSAGE = """\
# Backup

> **Note**
>
> The nightly backup starts at 03:00 UTC.

> **Warning**
>
> Root needed
>
> Run `backup init` as root, or nothing is written.

> **Tip**
>
> Keep ninety days of backups.

**Debian**

Install it with `apt install backup`.

**Fedora**

Install it with `dnf install backup`.

See Restore and restore or `backup.run()`, with version.

## Restore

Times:

| Size | Time |
|---|---|
| 1 TB | two hours |"""
RST = """\
Install
=======

The tool installs itself.

..
   A hidden comment: the codename is Falcon.

After that the tool starts.

.. Another comment: the password is swordfish.

The end comes at noon.
"""
RST_PASSAGE = """\
# Install

The tool installs itself.

After that the tool starts.

The end comes at noon."""

QUARTO = """\
---
title: Prices
format:
  html: default
---

::: {.callout-note collapse="true"}
## Where from
The data are *public*.
:::

```{r}
#| label: fig-prices
#| fig-cap: "Prices"
plot(prices)
```

![](a.png){fig-alt="It's a plot" width="80%"}

+-------+-------+
| Name  | Price |
+=======+=======+
| `a`   | 5     |
+-------+-------+

: What it costs {#tbl-prices}
"""
QUARTO_PASSAGE = """\
# Prices

> **Note**
>
> **Where from**
>
> The data are *public*.

```r
plot(prices)
```

| Name | Price |
|---|---|
| `a` | 5 |

What it costs"""


@pytest.mark.parametrize(
    ("path", "text", "passage"),
    [
        ("attributes.adoc", ATTRIBUTES_ADOC, ATTRIBUTES_ADOC_PASSAGE),
        ("blocks.adoc", BLOCKS_ADOC, BLOCKS_ADOC_PASSAGE),
        ("fence.adoc", FENCE_ADOC, FENCE_ADOC_PASSAGE),
        ("docusaurus.mdx", DOCUSAURUS_MDX, DOCUSAURUS_MDX_PASSAGE),
        ("sms.mdx", SMS_MDX, SMS_MDX_PASSAGE),
        ("start.mdx", START_MDX, START_MDX_PASSAGE),
        ("trigger.mdx", TRIGGER_MDX, TRIGGER_MDX_PASSAGE),
        ("a.md", MYST, MYST_PASSAGE),
        ("a.rst", RST, RST_PASSAGE),
        ("a.qmd", QUARTO, QUARTO_PASSAGE),
        ("a.Rmd", QUARTO, QUARTO_PASSAGE),
    ],
)
def test_a_page_is_what_its_readers_see(path: str, text: str, passage: str) -> None:
    [piece] = chunk(Document(path, text, detect_kind(path)), 2000)
    assert piece.text == passage


@pytest.mark.parametrize(
    ("path", "titles"),
    [
        ("guides/call-package.md", ["Use of a call in the package", "Use of a call in the package > Overrides"]),
        ("guides/Use_package2.md", ["Use of a call in the package", "Use of a call in the package > Overrides"]),
        ("README.md", ["Use of a call in the package", "Overrides"]),
        ("2.md", ["Use of a call in the package", "Overrides"]),
    ],
)
def test_a_heading_that_says_what_the_file_says_is_the_title(path: str, titles: list[str]) -> None:
    text = f"# Use of a call in the `package`\n\n{'Text. ' * 60}\n\n# Overrides\n\n{'More. ' * 60}"
    assert [piece.title for piece in chunk(Document(path, text, "markdown"), 100)] == titles


def test_a_heading_in_a_quotation_names_nothing_outside_of_it() -> None:
    text = "# Guide\n\n> ## Old\n>\n> Slow.\n\nFast."
    (piece,) = chunk(Document("docs/a.md", text, "markdown"))
    assert (piece.title, piece.text) == ("Guide", "# Guide\n\n> **Old**\n>\n> Slow.\n\nFast.")
    note = "# Guide\n\n:::note\n\n## Old\n\nSlow.\n\n:::\n\n## New\n\nFast."
    assert [piece.title for piece in chunk(Document("docs/a.md", note, "markdown"), 5)][-1] == "Guide > New"


def test_a_passage_does_not_end_in_the_heading_of_the_next_one() -> None:
    page = "### Page 2\n\n#### On it\n\n" + "Text of a page.  \n" * 60
    text = f"# Guide\n\n## Start\n\nFirst.\n\n{page}\n\n## End\n\n### Empty\n\n### Last\n\nText."
    texts = [piece.text.strip() for piece in chunk(Document("docs/a.md", text, "markdown"), 100)]
    assert texts[0].endswith("First.")
    assert texts[1].startswith("### Page 2\n\n#### On it\n\nText")
    assert not any(text.rpartition("\n")[2].startswith("#") for text in texts)


def test_a_passage_does_not_end_in_the_label_of_the_next_one() -> None:
    words = "word " * 40
    texts = [
        piece.text for piece in chunk(Document("a.md", f"# Guide\n\n{words}\n\n**Note**\n\n{words}", "markdown"), 60)
    ]
    assert [text.startswith("**Note**\n\nword") for text in texts] == [False, True]
    text = f"# Guide\n\n{words}\n\n**It is done.**\n\n{words}"
    assert chunk(Document("a.md", text, "markdown"), 60)[0].text.endswith("**It is done.**")
    unfolded = f"# Guide\n\n{words}\n\n<details><summary>By tarn</summary>\n\n## By tarn\n\n{words}\n\n</details>"
    assert [piece.text[:11] for piece in chunk(Document("a.md", unfolded, "markdown"), 60)] == [
        "# Guide\n\nwo",
        "## By tarn\n",
    ]


def test_a_rule_between_passages_belongs_to_none() -> None:
    words = "word " * 40
    text = f"# Guide\n\nOne.\n\n---\n\nTwo {words}\n\n---\n\n## Next\n\n---\n\nThree {words}\n\n---\n"
    texts = [piece.text for piece in chunk(Document("docs/a.md", text, "markdown"), 60)]
    assert texts[0].startswith("# Guide\n\nOne.\n\n---\n\nTwo")
    assert all(text.endswith("word") for text in texts)
    assert chunk(Document("docs/b.md", "---\n\n***\n", "markdown")) == []
    note = chunk(Document("docs/c.md", f"> {words}\n>\n> ---\n>\n> {words}", "markdown"), 60)
    assert [piece.text.endswith("word") for piece in note] == [True, True]


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.rst", "See :ref:`x-y`."), ("a.md", "See {ref}`x-y`."), ("a.mdx", "See [](x-y)."), ("a.adoc", "See <<x-y>>.")],
)
def test_passages_have_the_titles_that_their_document_was_given(path: str, text: str) -> None:
    (piece,) = chunk(Document(path, text, detect_kind(path), names={"x-y": "The title"}))
    assert piece.text == "See The title."


@pytest.mark.parametrize(
    ("path", "text", "title"),
    [
        ("docs/getting-started.md", "## Install\n\nText.", "getting started > Install"),
        ("docs/data-loaders/index.md", "Text.", "data loaders"),
        ("examples/small-server/README.md", "Text.", "small server"),
        ("index.md", "Text.", "index"),
        ("docs/key-maps.md", "## Keys of the map\n\n### A\n\nText.\n\n## Modes", "Keys of the map > A / Modes"),
        ("docs/key-map.md", "### Keys of the map\n\nText.\n\n## Modes", "key map > Keys of the map / Modes"),
        ("goals.md", "Text.\n\n# Our goals\n\nText.\n\n# Others\n\nText.", "Our goals > Others"),
        ("skill.md", "It builds on others.\n\n# Set up routes\n\n## Start\n\nText.", "Set up routes > Start"),
        ("CHANGES.md", "# Version 1.2\n\nText.\n\n# Version 1.1", "CHANGES > Version 1.2 / Version 1.1"),
        ("3.9-4.0_notes.md", "# A\n\nText.\n\n# B", "3.9-4.0 notes > A / B"),
        ("debugging.md", "## Debug a model\n\n### Tools\n\nText.", "Debug a model > Tools"),
        ("debugging.md", "### Tools\n\nText.\n\n## Debug a model", "debugging > Tools / Debug a model"),
        ("server/README.md", "### The logo\n\nText.\n\n# The server\n\n## Start\n\nText.", "The server > Start"),
        ("a.md", "---\ntitle: Guide\n---\n## Guide\n\nText.", "Guide"),
        ("a.md", "# Guide\n\n## Guide\n\n### Start\n\nText.", "Guide > Start"),
    ],
)
def test_a_title_is_words_and_repeats_nothing(path: str, text: str, title: str) -> None:
    assert {piece.title for piece in chunk(Document(path, text, "markdown"))} == {title}


@pytest.mark.parametrize(
    ("path", "opening", "closing"),
    [
        ("a.md", "```python", "```"),
        ("a.md", "```ts twoslash\nconst hidden = 1;\nconst other = 2;\n// ---cut---", "```"),
        ("a.adoc", "[source,python]\n----", "----"),
    ],
)
def test_passages_of_long_code_have_the_lines_of_their_part(path: str, opening: str, closing: str) -> None:
    code = [f"call_number_{number}({'argument, ' * 6}{number});" for number in range(60)]
    text = "\n".join(["Call it:", "", opening, *code, closing])
    lines = text.split("\n")
    passages = chunk(Document(path, text, detect_kind(path)), 200)
    assert len(passages) > 2
    for passage in passages[1:-1]:
        shown = passage.text.split("\n")[1:-1]
        assert lines[passage.start_line - 1 : passage.end_line] == shown


def test_a_plain_text_with_directives_of_sphinx_is_read_as_such() -> None:
    myst = '```{config:option} a.b\n:shortdesc: "The mode"\n```\n'
    assert [piece.text for piece in chunk(Document("a.txt", myst, "text"))] == ["**`a.b`**: The mode"]
    assert [piece.text for piece in chunk(Document("a.txt", ".. note:: Read\n", "text"))] == ["> **Note**\n>\n> Read"]
    assert [piece.text for piece in chunk(Document("a.txt", "Text.. so: [a]{b}", "text"))] == ["Text.. so: [a]{b}"]


def test_long_code_in_a_cell_is_cut_as_code() -> None:
    code = "\n".join(f"line {number} of an example that is long" for number in range(60))
    text = f'[cols="1a,1a"]\n|===\n| Old | New\n\n|\n[source,xml]\n----\n{code}\n----\n| Shorter\n|===\n'
    passages = chunk(Document("a.adoc", text, "asciidoc"), 200)
    assert len(passages) > 2
    assert all(passage.text.count("```") % 2 == 0 for passage in passages)
    assert all("```xml" in passage.text for passage in passages if "line " in passage.text)
    assert sum(passage.text.count("line ") for passage in passages) == 60


ROWS = 12
WORDS = "It says how the tank is filled and when. " * 6


@pytest.mark.parametrize(
    ("head", "row", "foot"),
    [
        ("|===\n| A | B\n\n", "| key{}\n// none\n| {}\n\n", "|===\n"),
        ("|===\n| A | B\n\n", "| key{} | {}\n", "|===\n"),
        (",===\nA,B\n\n", 'key{},"{}\nand"\n', ",===\n"),
    ],
)
def test_a_passage_of_rows_has_the_lines_of_these(head: str, row: str, foot: str) -> None:
    text = head + "".join(row.format(number, WORDS) for number in range(ROWS)) + foot
    lines = text.split("\n")
    passages = chunk(Document("a.adoc", text, "asciidoc"), 200)
    assert len(passages) > 2
    for passage in passages:
        source = "\n".join(lines[passage.start_line - 1 : passage.end_line])
        assert [f"key{each} " in passage.text for each in range(ROWS)] == [
            any(f"key{each}{sign}" in source for sign in " ,\n") for each in range(ROWS)
        ]


def test_rows_of_several_lines_divide_those_of_their_table() -> None:
    text = "".join(f"* - key{number}\n  - {WORDS}\n" for number in range(ROWS))
    document = f".. list-table::\n\n{''.join(f'   {line}' for line in text.splitlines(keepends=True))}"
    spans = [(each.start_line, each.end_line) for each in chunk(Document("a.rst", document, "rst"), 200)]
    assert len(spans) > 2
    assert all(end - start > 2 for start, end in spans)
    assert [start for start, _ in spans[1:]] == [end + 1 for _, end in spans[:-1]]


def test_a_passage_of_fields_has_the_lines_of_their_objects() -> None:
    fields = [f"  key{number}: {{\n    type: 'text',\n    description: '{WORDS}',\n  }},\n" for number in range(ROWS)]
    text = f"# Fields\n\n<Types type={{{{\n{''.join(fields)}}}}} />\n"
    lines = text.split("\n")
    passages = chunk(Document("a.mdx", text, "markdown"), 200)
    assert len(passages) > 2
    for passage in passages:
        source = "\n".join(lines[passage.start_line - 1 : passage.end_line])
        assert [f"`key{each}`" in passage.text for each in range(ROWS)] == [
            f" key{each}:" in source for each in range(ROWS)
        ]
