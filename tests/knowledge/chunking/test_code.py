"""More than twelve languages by their syntax: definitions name their passages, and are kept whole where they fit."""

from __future__ import annotations

import random
import time
from importlib.util import find_spec

import pytest

from core.evidence.ranking import get_kind_weight
from core.language.tokens import estimate_tokens
from knowledge.chunking import chunk
from knowledge.chunking.code import LANGUAGES
from knowledge.ports import Document
from knowledge.sources.common.documents import detect_kind

# Two definitions, the first with a blank line in its body: paragraphs would be cut there.
FILES = {
    "csharp": (
        "Loader.cs",
        "tree_sitter_c_sharp",
        "namespace Demo {{\npublic class Loader {{\n  public async Task<int> Load(string path) {{\n{body}\n  }}\n\n"
        "  private int Save(int total) {{\n{body}\n  }}\n}}\n}}\n",
        "    total += Compute({n});",
        ("Load", "Save"),
    ),
    "php": (
        "loader.php",
        "tree_sitter_php",
        "<?php\nclass Loader {{\n  public function load(string $path): int {{\n{body}\n  }}\n\n"
        "  private static function save($total) {{\n{body}\n  }}\n}}\n",
        "    $total += compute({n});",
        ("load", "save"),
    ),
    "ruby": (
        "loader.rb",
        "tree_sitter_ruby",
        "class Loader\n  def load(path)\n{body}\n  end\n\n  def self.save(total)\n{body}\n  end\nend\n",
        "    total += compute({n})",
        ("load", "save"),
    ),
    "kotlin": (
        "Loader.kt",
        "tree_sitter_kotlin",
        "class Loader {{\n  suspend fun load(path: String): Int {{\n{body}\n  }}\n\n"
        "  private fun <T> List<T>.save(total: Int) {{\n{body}\n  }}\n}}\n",
        "    total += compute({n})",
        ("load", "save"),
    ),
    "swift": (
        "Loader.swift",
        "tree_sitter_swift",
        "struct Loader {{\n  mutating func load(path: String) -> Int {{\n{body}\n  }}\n\n"
        "  private func save(total: Int) {{\n{body}\n  }}\n}}\n",
        "    total += compute({n})",
        ("load", "save"),
    ),
    "shell": (
        "loader.sh",
        "tree_sitter_bash",
        "#!/bin/sh\nload() {{\n{body}\n}}\n\nfunction save {{\n{body}\n}}\n",
        '  total=$((total + $(compute "{n}")))',
        ("load", "save"),
    ),
}
SUFFIXES = {
    "a.cs": "csharp",
    "a.php": "php",
    "a.rb": "ruby",
    "a.kt": "kotlin",
    "a.kts": "kotlin",
    "a.swift": "swift",
    "a.sh": "shell",
    "a.bash": "shell",
    "a.zsh": "shell",
}


def test_there_are_a_dozen_languages_beside_python() -> None:
    assert len(LANGUAGES) >= 12


@pytest.mark.parametrize(("path", "kind"), SUFFIXES.items())
def test_a_file_is_of_its_language_which_counts_as_code(path: str, kind: str) -> None:
    assert detect_kind(path) == kind
    assert kind in LANGUAGES
    assert get_kind_weight(kind, {"code": 0.5}) == 0.5


@pytest.mark.parametrize("kind", FILES)
def test_passages_are_whole_lines_of_bounded_size_with_names(kind: str) -> None:
    path, _, frame, line, names = FILES[kind]
    text = frame.format(body="\n".join(line.format(n=n) for n in range(60)))
    chunks = chunk(Document(f"src/{path}", text, kind))
    source = text.split("\n")
    for piece in chunks:
        assert piece.text == "\n".join(source[piece.start_line - 1 : piece.end_line]).rstrip()
        assert estimate_tokens(piece.text) <= 300
        assert piece.title.startswith(path)
    titles = " ".join(piece.title for piece in chunks)
    assert all(name in titles for name in names), titles
    covered = {number for piece in chunks for number in range(piece.start_line, piece.end_line + 1)}
    assert all(number in covered for number, name in enumerate(source, 1) if name.strip())


@pytest.mark.parametrize("kind", FILES)
def test_a_definition_that_fits_is_kept_whole(kind: str) -> None:
    path, grammar, frame, line, names = FILES[kind]
    if find_spec(grammar) is None:
        pytest.skip(f"{grammar} is not installed: this language is cut by paragraph")
    lines = [line.format(n=n) for n in range(20)]
    lines.insert(12, "")
    body = "\n".join(lines)
    size = int(estimate_tokens(body) * 1.3)
    chunks = chunk(Document(path, frame.format(body=body), kind), size)
    assert sum(body in message.text for message in chunks) == len(names)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ruby", "\n".join("  " * n + "if a" for n in range(1000)) + "\nend" * 1000),
        ("ruby", "\n".join("  " * n + "things.each do |a|" for n in range(100)) + "\nend" * 100),
        ("shell", "\n".join("if true; then" for _ in range(1000)) + "\nfi" * 1000),
        ("shell", "\n".join("while true; do" for _ in range(1000)) + "\ndone" * 1000),
        ("javascript", "".join(f"w{n}class A:\n" for n in range(2000))),
        ("javascript", "".join(f"w{n} A: " + "\n" * (n % 40 == 0) for n in range(3000))),
        ("javascript", "if (a)\n" * 4000),
        ("typescript", "while (1)\n" * 3000),
        ("c", "for (;;)\n" * 3000),
        ("java", f"if (a) b(); // {'x' * 20}\nelse " * 1000),
        *((kind, "{\n" * 2000 + "}\n" * 2000) for kind in FILES),
        *((kind, "a = b + " * 20_000) for kind in FILES),
        *((kind, "a=>\n" * 24_000) for kind in ("c", "cpp", "javascript")),
    ],
)
def test_hostile_code_takes_no_longer(kind: str, text: str) -> None:
    started_at = time.thread_time()
    assert chunk(Document(f"a.{kind}", text, kind))
    assert time.thread_time() - started_at < 2


@pytest.mark.parametrize("kind", ["javascript", "c"])
def test_a_long_file_is_split_by_its_syntax(kind: str) -> None:
    functions = ["".join(f"    if (a{n}) {{ b(); }}\n\n" for n in range(size % 7 + 3)) for size in range(60)]
    text = "\n".join(f"int f{n}() {{\n{body}}}\n" for n, body in enumerate(functions))
    text = text.replace("int ", "function ") if kind == "javascript" else text
    assert len(text) > 8000
    starts = [piece.text.lstrip("\n").split(" ")[0] for piece in chunk(Document(f"a.{kind}", text, kind), 100)]
    assert set(starts) == {"function" if kind == "javascript" else "int"}


def test_a_comment_stays_with_what_it_is_about() -> None:
    """Also far into a long file, and in PHP, where only the first part says that it is code."""
    methods = [
        f"  /**\n   * Adds to {number}.\n   */\n  function add{number}($a) {{\n    return $a + {number};\n\n  }}\n"
        for number in range(300)
    ]
    chunks = chunk(Document("a.php", "<?php\nclass Sum {\n" + "\n".join(methods) + "}\n", "php"), 60)
    assert len(chunks) > 100
    assert all(piece.text.lstrip().startswith("/**") for piece in chunks[1:])
    assert all(piece.text.count("Adds to") == piece.text.count("return") for piece in chunks)


@pytest.mark.parametrize("kind", FILES)
def test_nothing_is_lost_of_code_that_is_broken(kind: str) -> None:
    rng = random.Random(7)
    _, _, frame, line, _ = FILES[kind]
    lines = frame.format(body="\n".join(line.format(n=n) for n in range(40))).split("\n")
    for _ in range(5):
        rng.shuffle(lines)
        chunks = chunk(Document("a", "\n".join(lines), kind))
        covered = {number for piece in chunks for number in range(piece.start_line, piece.end_line + 1)}
        assert all(number in covered for number, text in enumerate(lines, 1) if text.strip())


RUST_BODY = "\n".join(f"        total += compute({number});" for number in range(60))


def test_passages_within_a_definition_have_its_name() -> None:
    """The second `impl` of one name is not taken for the one before it."""
    text = (
        "impl Recipe {\n    fn a() {}\n}\n\nfn module_path() {}\n\nimpl Recipe {\n    fn run() {\n"
        f"{RUST_BODY}\n    }}\n}}\n"
    )
    last = chunk(Document("recipe.rs", text, "rust"), 100)[-1]
    assert last.title == "recipe.rs > Recipe"


@pytest.mark.parametrize(
    ("path", "kind", "definition"),
    [
        ("a.c", "c", "static int *load(const char *path)"),
        ("a.cc", "cpp", "std::vector<int> Store::load(const std::string& path) const"),
        ("A.java", "java", "public <T> List<T> load(String path) throws IOException"),
        ("b.cc", "cpp", "template <>\ndouble load<double>(const std::string& path)"),
        ("b.c", "c", "static list_t *\nload(int a __attribute__((unused)),\n     const char *path)"),
        ("c.c", "c", "static int __attribute__((noinline))\nload(const char *path)"),
        ("a.rs", "rust", "pub(crate) const unsafe extern \"C\" fn load<'a>(path: &'a str) -> &'a str"),
    ],
)
def test_definitions_name_their_passages(path: str, kind: str, definition: str) -> None:
    body = "\n".join(f"  if (compute({number})) return total({number});" for number in range(30))
    first = chunk(Document(path, f"{definition} {{\n{body}\n}}\n", kind))[0]
    assert first.title == f"{path} > load"


@pytest.mark.parametrize("kind", ["javascript", "typescript"])
@pytest.mark.parametrize(
    "method",
    ["load(path)", "async load (path = '')", "*load()", "static async *load(path)", "get load()", "set load(value)"],
)
def test_methods_of_scripts_name_their_passages_after_their_class(kind: str, method: str) -> None:
    body = "\n".join(f"    if (compute({number})) {{ total({number}); }}" for number in range(12))
    other = f"  other(list) {{\n{body}\n    [].map(function (it) {{ return it; }});\n  }}\n"
    text = f"class Store {{\n{other}\n  {method} {{\n{body}\n  }}\n}}\n"
    titles = [piece.title for piece in chunk(Document("a.js", text, kind), 150)]
    assert titles == ["a.js > Store / other", "a.js > Store / load"]


def test_what_a_method_of_typescript_returns_hides_no_name() -> None:
    body = "\n".join(f"    this.total += compute({number});" for number in range(12))
    text = (
        f"class Store {{\n  a(): void {{\n{body}\n  }}\n\n  override load<T>(a: T): Promise<T[]> {{\n{body}\n  }}\n}}\n"
    )
    assert chunk(Document("a.ts", text, "typescript"), 120)[-1].title == "a.ts > Store / load"


def test_a_body_that_begins_on_a_line_of_its_own_has_its_name() -> None:
    body = "\n".join(f"    total += compute({number});" for number in range(60))
    pieces = chunk(Document("a.c", f"int load(int a)\n{{\n{body}\n}}\n", "c"), 100)
    assert {piece.title for piece in pieces} == {"a.c > load"}


def test_names_are_not_repeated_where_small_passages_are_joined() -> None:
    text = "\n\n".join(f"impl Recipe {{\n    fn f{number}() {{}}\n}}" for number in range(8))
    for piece in chunk(Document("recipe.rs", text, "rust"), 60):
        names = piece.title.removeprefix("recipe.rs > ").split(" / ")
        assert len(names) == len(set(names))
