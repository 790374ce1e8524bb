"""References lead to the titles of other files, in the forms of each tool."""

from __future__ import annotations

import pytest

from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown
from knowledge.formats.asciidoc import read_asciidoc
from knowledge.formats.references import Names, find_references, get_outline_kind, read_outline
from knowledge.formats.rst import read_rst

FILES = {
    "docs/conf.py": (
        'version = "2.1"\nbrand = \'Rocket\'\nrst_prolog = f"""\n.. |app| replace:: {brand} *App*\n'
        '.. |os| replace:: {platform.system()}\n.. |py| replace:: {project.get("python").split(",")[0]}\n"""\n'
        'rst_epilog = ".. |mail| replace:: a@b.example"\n'
    ),
    "docs/index.rst": "=====\nStart\n=====\n\nText.\n",
    "docs/guide/ports.rst": (
        ".. _ports:\n.. _The `list`:\n\nPorts of ``rocket``\n===================\n\n.. _no title:\n\nText.\n\n"
        ".. _deep:\n\nDeep :ref:`x <y>`\n------------------\n"
    ),
    "docs/guide/themes.md": "---\ntitle: x\n---\n(colours)=\n## All {term}`colours`\n",
    "docs/orbit.ipynb": (
        '{"cells": [{"cell_type": "code", "source": ["# no title"]}, {"cell_type": "markdown", "id": "a",\n'
        ' "metadata": {},\n "source": ["![](a.png)\\n", "\\n",\n "# The \\u201corbit\\u201d of `x`\\n", "b"]}]}'
    ),
    "docs/plain.md": "Text.\n\n# Plain *page*\n",
    "site/antora.yml": "name: a\nasciidoc:\n  attributes:\n    product: Rocket\n",
    "docs-playbook.yml": (
        "site:\n  title: x\nasciidoc:\n  attributes:\n    product: Other\n"
        "    sql-name: 'SQL++@'\n    full: the {sql-name}\n"
    ),
    "site/modules/ROOT/pages/index.adoc": ":page: first\n= The {page} page of {product}\n\n[#setup]\n== Set up\n",
    "site/modules/ROOT/pages/shown.adoc": ":navtitle: x\n\ninclude::partial$proc_shown.adoc[]\n",
    "site/modules/ROOT/partials/proc_shown.adoc": '[id="shown_it"]\n= What is shown\n',
    "site/modules/admin/pages/deep/users.adoc": "= Users\n:page-aliases: ROOT:people.adoc, old/users.adoc\n",
    "manual/a.adoc": "= Alpha\n\n[[b]]\n== Beta\n",
}


def detect(path: str) -> str:
    kinds = {"rst": "rst", "txt": "text", "md": "markdown", "ipynb": "notebook", "adoc": "asciidoc", "py": "python"}
    return get_outline_kind(path, kinds.get(path.rpartition(".")[2], "") * (path != "docs/conf.py"))


def show(path: str, text: str, files: dict[str, str] = FILES) -> str:
    """Return a page as its passages have it, with what the other files give."""
    kind = detect(path)
    names = Names({name: read_outline(detect(name), content) for name, content in {**files, path: text}.items()})
    found = names.find(path, kind, find_references(kind, text))
    readers = {"rst": read_rst, "text": read_rst, "asciidoc": read_asciidoc}
    blocks = readers[kind](text, found) if kind in readers else read_markdown(text, names=found)
    return write_markdown(blocks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See :ref:`ports`.", "See Ports of rocket."),
        ("See :ref:`Deep` and :ref:`deep`.", "See Deep x and Deep x."),
        ("See :ref:`colours`, :ref:`my own <ports>`.", "See All colours, my own."),
        ("See :doc:`ports`, :doc:`/index`, :doc:`../plain`.", "See Ports of rocket, Start, Plain page."),
        ("See :doc:`/orbit`.", "See The “orbit” of x."),
        ("See :ref:`guide/ports:Deep things` of :ref:`python:the-list`.", "See Deep things of the list."),
        ("See :ref:`no title` and :ref:`not-there`.", "See no title and not there."),
        ("The |app| |version| for |mail| on |os|, |py| or |own|.\n\n.. |own| replace:: mine",
         "The Rocket App 2.1 for a@b.example on os, py or mine."),
    ],
)  # fmt: skip
def test_sphinx(text: str, expected: str) -> None:
    assert show("docs/guide/page.rst", text) == expected


def test_a_title_does_not_break_the_table_it_is_in() -> None:
    table = "=====  ============\nName   See\n=====  ============\n|app|  :ref:`ports`\n=====  ============"
    assert "| Rocket App | Ports of rocket |" in show("docs/guide/page.rst", table)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See {ref}`ports` and {doc}`ports`.", "See Ports of rocket and Ports of rocket."),
        ("See [](themes.md), [](#colours), [](/plain.md).", "See x, All colours, Plain page."),
        ("See [](missing.md), [mine](themes.md).", "See missing, mine."),
        ('See <Page link="guide/themes" /> or <Page to="../plain.md" />.', "See x or Plain page."),
        ("See [](#Spawner.apply_options), [](#the_end).", "See Spawner.apply_options, the end."),
    ],
)
def test_myst(text: str, expected: str) -> None:
    assert show("docs/guide/page.md", text) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("site/modules/admin/pages/page.adoc", "See xref:deep/users.adoc[] and xref:ROOT:index.adoc[].",
         "See Users and The first page of Rocket."),
        ("site/modules/ROOT/pages/page.adoc", "<<index.adoc#setup>>, xref:index.adoc#setup[], xref:1.2@shown.adoc[].",
         "Set up, Set up, What is shown."),
        ("site/modules/ROOT/pages/page.adoc", "xref:shown.adoc#shown_it[], xref:missing.adoc[], xref:index.adoc[mine].",
         "What is shown, missing, mine."),
        ("site/modules/ROOT/pages/page.adoc", "xref:people.adoc[], xref:admin:old/users.adoc[].", "Users, Users."),
        ("site/modules/ROOT/pages/page.adoc", "xref:a:admin:deep/users.adoc[] `xref:index.adoc[]`", None),
        ("site/modules/ROOT/pages/page.adoc", "{product} has {full} `{sql-name}`, not {that} or /{id}.",
         "Rocket has the SQL++ `SQL++`, not that or /{id}."),
        ("site/modules/ROOT/pages/page.adoc", ":product: Mine\n\n{product} ifdef\n\nifdef::sql-name[{sql-name}]",
         "Mine ifdef\n\nSQL++"),
        ("manual/b.adoc", "xref:a.adoc[], <<a.adoc#b>>, xref:#b[], <<b>>.", "Alpha, Beta, Beta, Beta."),
    ],
)  # fmt: skip
def test_asciidoc(path: str, text: str, expected: str | None) -> None:
    shown = show(path, text)
    assert shown == expected if expected else shown.startswith("Users")


LINKS = {
    "docs/conf.py": (
        'extlinks = {\n    "issue": ("https://x.example/i/%s", "GH%s"),\n    "user": ("https://x.example/u/%s", "@"),\n'
        '    "src": ("https://x.example/s/%s", None),\n    "bad": (f"https://x.example/{host}/%s", "a%s"),\n}\n'
        'myst_substitutions = {"helm": "3.5", "chart": read()["version"], "least": 3}\n'
    ),
}


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/a.rst", "See :issue:`12`, :user:`ann`, :src:`a/b.py`.",
         "See [GH12](https://x.example/i/12), [@ann](https://x.example/u/ann), https://x.example/s/a/b.py."),
        ("docs/a.rst", "See :bad:`5`, :pull:`4`, :issue:`mine <13>`, ``:issue:`12```.",
         "See 5, 4, mine, `` :issue:`12` ``."),
        ("docs/a.rst", "See :issue:`12``.", "See [GH12](https://x.example/i/12)."),
        ("docs/a.md", "See {issue}`12`, {user}`ann`, {bad}`5`, `` {issue}`12` ``.",
         "See [GH12](https://x.example/i/12), [@ann](https://x.example/u/ann), 5, `` {issue}`12` ``."),
        ("docs/a.md", "Helm {{helm}} with {{ least }} nodes for {{chart}}, not `{{helm}}`.",
         "Helm 3.5 with 3 nodes for chart, not `{{helm}}`."),
        ("blog/a.md", "See {issue}`12` of {{helm}}.", "See #12 of helm."),
    ],
)  # fmt: skip
def test_links_and_values_of_the_configuration(path: str, text: str, expected: str) -> None:
    assert show(path, text, LINKS) == expected


def test_values_of_the_configuration_may_name_its_constants() -> None:
    settings = (
        'host = "x.example"\nversion = "2.1"\n'
        'extlinks: dict[str, tuple[str, str]] = {"issue": (f"https://{host}/i/%s", "GH%s")}\n'
        'myst_substitutions = {"v": version, "file": f"app-{version}.zip", "r": f"{version!r}", "z": f"{zone}-1"}\n'
    )
    shown = show("docs/a.md", "Get {{v}} as {{file}}, {{r}}, {{z}}: {issue}`12`.", {"docs/conf.py": settings})
    assert shown == "Get 2.1 as app-2.1.zip, r, z: [GH12](https://x.example/i/12)."


REPLACEMENTS = """
import rocket
base = "https://" + "x.example"
def set_up(app):
    app.config.release = version = rocket.__version__
    if ".dev" in version:
        address = f"{base}/dev/"
    else:
        address = f"{base}/{version}/"
    app.config.replaced = {"{{ADDRESS}}": address, "{{ VERSION }}": version, "{{least}}": 3, other: 1}
def setup(app):
    app.connect("source-read", replace)
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/a.md", "See {{ADDRESS}}a, `{{ADDRESS}}` and {{ other }}.\n\n```\nget {{ADDRESS}}a.js\n```",
         "See https://x.example/dev/a, `https://x.example/dev/` and other.\n\n```\nget https://x.example/dev/a.js\n```"),
        ("docs/a.md", "Get `a-{{VERSION}}.zip`, not `{{VERSION}}a`, `a{{VERSION}}` or `{{other}}`.",
         "Get `a-VERSION.zip`, not `{{VERSION}}a`, `a{{VERSION}}` or `{{other}}`."),
        ("docs/a.rst", "See ``{{ADDRESS}}``::\n\n   get {{ADDRESS}}a-{{VERSION}}.js\n",
         "See `https://x.example/dev/`:\n\n```\nget https://x.example/dev/a-VERSION.js\n```"),
        ("blog/a.md", "`{{ADDRESS}}`", "`{{ADDRESS}}`"),
    ],
)  # fmt: skip
def test_what_a_configuration_replaces_in_the_source(path: str, text: str, expected: str) -> None:
    assert show(path, text, {"docs/conf.py": REPLACEMENTS}) == expected


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ("v = w = '1'", "1"),
        ("a.b = '1'\nv = 'x' + a.b", "x1"),
        ("v = '1' if x else f'{x}'", "1"),
        ("v = '1' if x else '2'", "v"),
        ("if x:\n    v = '1'\nelif y:\n    v = f()\nelse:\n    v = '1'", "1"),
        ("if x:\n    v = '1'\nelse:\n    v = '2'", "v"),
        ("v = f()\nif not v:\n    v = 'unknown'", "v"),
        ("v = '1'\nif x:\n    v = f()", "1"),
        ("try:\n    v = f()\nexcept E:\n    v = 'unknown'", "v"),
        ("v = '1'\nv += f()", "v"),
        ("v = '1'\nv, w = f()", "v"),
        ("v = 1 + 2", "v"),
        (f"v = '{'x' * 900}'\nv = v + v", "v"),
        (f"v = 0x{'f' * 9000}", "v"),
    ],
)
def test_values_of_a_configuration_are_read_as_data(settings: str, shown: str) -> None:
    files = {"conf.py": f"{settings}\nmyst_substitutions = {{'v': v}}\n"}
    assert show("a.md", "It is {{ v }}.", files) == f"It is {shown}."


def test_labels_that_every_project_of_sphinx_has() -> None:
    text = ":ref:`genindex`, :ref:`modindex`, :ref:`search`"
    assert show("a.rst", text, {}) == "Index, Module Index, Search Page"
    assert show("a.rst", ":doc:`search`", {"search.rst": "Find\n====\n"}) == "Find"


def test_a_version_of_several_names() -> None:
    assert show("a.rst", "It is |version|.", {"conf.py": "release = version = '2.' + '1'\n"}) == "It is 2.1."


def test_substitutions_of_a_jupyter_book() -> None:
    settings = {
        "docs/_config.yml": "title: Book\nparse:\n  myst_substitutions:\n    v: '2.1'\n    app: Rocket\n  x: y\n"
    }
    assert show("docs/a.md", "Get {{ app }} {{v}}, {{x}}.", settings) == "Get Rocket 2.1, x."


@pytest.mark.parametrize(
    "text", ["extlinks = {", "extlinks = " + "-" * 100_000 + "1", "extlinks = {**other, 1: 2}", "extlinks = 1"]
)
def test_a_configuration_that_no_one_can_read_gives_nothing(text: str) -> None:
    assert show("docs/a.rst", "See :issue:`12`.", {"docs/conf.py": text}) == "See #12."


def test_what_names_itself_ends() -> None:
    looped = {"m/modules/ROOT/pages/a.adoc": "include::page$a.adoc[]\n"}
    assert show("m/modules/ROOT/pages/b.adoc", "xref:a.adoc[]", looped) == "a"
    grown = {f"m/{name}.adoc": f"= {{x}}{{x}}\n:x: {'y' * 900}\n" for name in "ab"}
    assert show("m/c.adoc", "xref:a.adoc[]", grown) == "a"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/x.md", "<!--\n# Internal: layoffs\n-->\n"),
        ("docs/x.md", "Text.\n\n```bash\n# apt is needed\n```\n"),
        ("docs/x.adoc", "////\n= Internal: layoffs\n////\n"),
        ("docs/x.adoc", "ifdef::internal[]\nifdef::more[]\nendif::[]\n= Internal: layoffs\nendif::[]\n"),
        ("docs/x.adoc", "----\n= Not a title\n----\n"),
    ],
)
def test_what_a_page_does_not_show_is_not_its_title(name: str, text: str) -> None:
    assert read_outline(detect(name), text).title == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/x.md", "The *moon*\n========\n\n# Part\n"),
        ("docs/x.md", "<!-- no -->\n\nThe moon \n=\n"),
        ("docs/x.ipynb", '{"cells": [{"cell_type": "markdown", "source": ["The moon \\n", "=====\\n", "\\n", "a"]}]}'),
        ("docs/x.ipynb", '{"worksheets": [{"cells": [{"cell_type": "markdown", "source": "The moon\\n===\\n"}]}]}'),
    ],
)
def test_a_title_may_be_underlined(name: str, text: str) -> None:
    assert show("docs/y.md", "See [](x).", {name: text}) == "See The moon."


def test_a_label_of_two_titles_is_shown_as_it_is_written() -> None:
    files = {name: f".. _install:\n\nInstall {name[0]}\n{'=' * 20}\n" for name in ("a/a.rst", "b/b.rst")}
    assert show("b/c.rst", "See :ref:`install`.", files) == "See install."


def test_a_page_has_no_label_of_a_file_that_it_does_not_include() -> None:
    files = {"b.adoc": "= B\n", "other/c.adoc": "= C\n\n[#install]\n== Install the printer\n"}
    assert "printer" not in show("a.adoc", "xref:b.adoc#install[] xref:gone.adoc#install[]", files)


def test_an_absolute_page_is_named_from_the_configuration() -> None:
    files = {"docs/conf.py": "", "docs/index.rst": "Home\n====\n", "docs/guide/index.rst": "The guide\n=========\n"}
    assert show("docs/guide/a.rst", "See :doc:`/index`.", files) == "See Home."


EXAMPLES = {
    "docs/conf.py": "",
    "examples/plot_corners.py": '"""\n=============\nFinds corners\n=============\n\nText.\n"""\nimport this\n',
    "examples/color/plot_tint.py": "#!/usr/bin/env python\n# A licence.\n\n'''Tints\n======\n\nText.\n'''\n",
    "examples/a/plot_same.py": '"""\nFirst\n=====\n"""\n',
    "examples/b/plot_same.py": '"""\nOther\n=====\n"""\n',
    "examples/plot_none.py": 'x = """\nNo title\n========\n"""\n',
}


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("sphx_glr_auto_examples_plot_corners.py", "Finds corners"),
        ("sphx_glr_gallery_color_plot_tint.py", "Tints"),
        ("sphx_glr_auto_examples_a_plot_same.py", "sphx_glr_auto_examples_a_plot_same.py"),
        ("sphx_glr_auto_examples_plot_none.py", "sphx_glr_auto_examples_plot_none.py"),
    ],
)
def test_an_example_of_a_gallery_is_named_by_its_title(label: str, shown: str) -> None:
    assert show("docs/a.rst", f"See :ref:`{label}`.", EXAMPLES) == f"See {shown}."
    assert show("docs/a.rst", f"See :ref:`mine <{label}>`.", EXAMPLES) == "See mine."


SITE = {
    "_config.yml": 'title: "A site"\nlib-version: 2.13.18 # newest\nbase: &b /x\nlist:\n  - a\nurl: https://a.example\n',
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Version {{ site.lib-version }} of {{site.title}}.", "Version 2.13.18 of A site."),
        ("[The API]({{ site.url }}/{{site.lib-version}}/a.html)", "[The API](https://a.example/2.13.18/a.html)"),
        ("```\nlib % {{- site.lib-version -}}\n```", "```\nlib % 2.13.18\n```"),
        ("Use `{% raw %}{{ site.title }}{% endraw %}` in {{site.title}}.", "Use `{{ site.title }}` in A site."),
        ("{{ site.base }}, {{ page.title }}", "site.base, page.title"),
    ],
)
def test_a_page_has_the_values_of_its_site(text: str, expected: str) -> None:
    assert expected in show("docs/a.md", text, SITE)


HUGO = {
    "config.yaml": "title: A\nparams:\n  version: 1.2 # new\n  a:\n    b: 'x'\n",
    "config/_default/params.toml": 'tag = "v2"\n',
    "content/docs/_index.md": "---\ntitle: Docs\ncascade:\n  version: 3.0\n---\n",
}


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("content/a.md", 'Go {{< param version >}}+, `{{% param a.b %}}`, {{< param "tag" >}}', "Go 1.2+, `x`, v2"),
        ("content/docs/x/a.md", "```\n{{< param version >}}\n```", "```\n3.0\n```"),
    ],
)
def test_a_page_of_hugo_has_the_parameters_of_its_site_and_section(path: str, text: str, expected: str) -> None:
    assert show(path, text, HUGO) == expected


def test_a_reference_to_a_section_of_another_page_of_quarto_is_its_title() -> None:
    files = {"_quarto.yml": "project:\n  type: book\n", "b.md": "# The *work* {#sec-work}\n"}
    assert show("a.md", "As @sec-work and @sec-b say.", files) == "As The work and Section b say."


@pytest.mark.parametrize(
    ("settings", "text", "expected"),
    [
        ({"_variables.yml": "a:\n  b: 2\n"}, "`{{< var a.b >}}`", "`2`"),
        (
            {"_quarto.yml": "book:\n  title: T\n"},
            "## Set up\n\n{{< meta book.title >}}: see [Set up].",
            "T: see Set up.",
        ),
        ({"_config.yml": "public_dir: public\n"}, "```\n{% raw %}\n```", "{% raw %}"),
        ({"_config.yml": "title: A\n"}, "```\n{% raw %}x\n```", "```\nx\n```"),
        ({"_config.yml": "sphinx:\n  a: b\n"}, "```\n{% raw %}x\n```", "{% raw %}x"),
        ({"zola.toml": 'base_url = "https://a.example"\n'}, "`{{/* a() */}}`", "`{{ a() }}`"),
        ({"config.toml": 'baseURL = "https://a.example"\n'}, "`{{/* a() */}}`", "`{{/* a() */}}`"),
    ],
)
def test_a_page_is_read_as_the_generator_of_its_site_does(settings: dict[str, str], text: str, expected: str) -> None:
    assert expected in show("docs/a.md", text, settings)


@pytest.mark.parametrize(
    ("files", "is_shown"),
    [
        ({"package.json": '{"dependencies": {"fumadocs-ui": "15.0.0"}}'}, True),
        ({"docs/docs.json": '{"$schema": "https://mintlify.com/docs.json"}'}, True),
        ({".gitbook.yaml": "root: ./docs/\n"}, True),
        ({"package.json": '{"dependencies": {"@docusaurus/core": "3.0.0"}}'}, False),
        ({"other/package.json": '{"dependencies": {"fumadocs-ui": "15.0.0"}}'}, False),
    ],
)
def test_a_description_is_shown_by_some_generators_of_sites(files: dict[str, str], is_shown: bool) -> None:
    text = "---\ntitle: Tank\ndescription: >-\n  How to\n  fill it.\n---\n\nText."
    description = "How to fill it.\n\n" if is_shown else ""
    assert show("docs/a.md", text, files) == f"# Tank\n\n{description}Text."


SHARED = {
    "doc/shared/attributes.adoc": (
        ":Name: Rocket\n:full: the {half}\n:half: {Name}\n:two: 1\nifdef::x[]\n:some: 1\nendif::[]\n"
    ),
    "doc/other/version-attrs.adoc": ":two: 2\n",
    "doc/_attributes/common.adoc": ":sign: +\n",
    "site-attributes.yml": "# all\n    run-it: 'docker run {name}' # soft\n    ports:\n      tcp: 1\n    two: 3\n",
    "attributes.yaml": "asciidoc:\n  attributes:\n    web: a.example\nother: x\n",
    "doc/page.adoc": ":own: 1\n\nText.\n",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name} is {full}{sign}.", "Rocket is the Rocket+."),
        (":name: Mine\n\n{name} is {full}.", "Mine is the Rocket."),
        ("{two}, {some}, {own}", "two, some, own"),
        ("{web}, {other}, {tcp}", "a.example, other, tcp"),
        ("[subs=attributes]\n----\n{run-it} {port}\n----", "```\ndocker run Rocket {port}\n```"),
    ],
)
def test_files_of_attributes_give_them_to_each_page(text: str, expected: str) -> None:
    """A module is read alone, though only the book that includes it includes the attributes, too."""
    assert show("doc/modules/a.adoc", text, SHARED) == expected


def test_a_substitution_may_name_others() -> None:
    conf = (
        'rst_prolog = """\n.. include:: <isonum.txt>\n.. |name| replace:: Rocket\\ |reg|\n'
        '.. |all| replace:: The |name| |x|\n"""\n'
    )
    files = {"docs/conf.py": conf}
    assert show("docs/a.rst", "|all| of |name|, |copy| |missing|.", files) == "The Rocket® x of Rocket®, © missing."
    looped = {"docs/conf.py": 'rst_prolog = """\n.. |a| replace:: |b| |b|\n.. |b| replace:: |a| |a|\n"""\n'}
    assert len(show("docs/a.rst", "|a|", looped)) < 100


def test_a_text_file_with_directives_has_references() -> None:
    files = {
        "docs/conf.py": 'extlinks = {"ticket": ("https://x.example/%s", "#%s")}\n',
        "docs/ref/urls.txt": ".. _paths:\n\nAll paths\n=========\n\n.. module:: paths\n\nText.\n",
        "notes.txt": "Notes\n=====\n\nSee :ref:`paths`.\n",
    }
    text = ".. note::\n\n   See :ref:`paths`, :doc:`/ref/urls` and :ticket:`5`."
    assert "See All paths, All paths and [#5](https://x.example/5)." in show("docs/a.txt", text, files)
    assert find_references("text", "See :ref:`paths`.") == ()
    assert get_outline_kind("a.foo", "text") == ""
    assert get_outline_kind("docs/fumadocs.json", "") == ""
