"""Which paths of a source are read, and how bytes become a document: text, kind, fingerprint, links to its lines."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from core.errors import SourceError
from core.settings.places import split_remote
from knowledge.formats.includes import EDITOR_CONFIG, is_partial

if TYPE_CHECKING:
    import pathspec

    from core.settings import DocumentSource

_LINK_TEMPLATES = (
    ("gitlab", "/-/blob/{commit}/{path}#L{start}-{end}"),
    ("bitbucket", "/src/{commit}/{path}#lines-{start}:{end}"),
    ("github", "/blob/{commit}/{path}#L{start}-L{end}"),
    ("gitee", "/blob/{commit}/{path}#L{start}-L{end}"),
    ("codeberg", "/src/commit/{commit}/{path}#L{start}-L{end}"),
    ("gitea", "/src/commit/{commit}/{path}#L{start}-L{end}"),
    ("forgejo", "/src/commit/{commit}/{path}#L{start}-L{end}"),
)

# Never taken: installed or compiled by tools.
_INSTALLED = ("node_modules/", "bower_components/", "__pycache__/", "site-packages/")

# Never taken either: what KIMAs is configured with, its secrets, and copies of both. They tell of closed sources.
_OWN = ("kimas.yaml*", "kimas.env*")
# What editors and people add to the name of a file where they keep a copy.
_COPY_SUFFIXES = ("", "~", ".*")

# Taken only where an include glob names them: the menus of Antora, docsify, mdBook and GitBook.
_MENUS = ("nav.adoc", "modules/*/*nav.adoc", "_sidebar.md", "_navbar.md", "SUMMARY.md")
# Taken only by a source that has include globs: written by tools or by somebody else.
_GENERATED = (
    "*.lock",
    "*-lock.json",
    "*-lock.yaml",
    "npm-shrinkwrap.json",
    "go.sum",
    "*.snap",
    "*.generated.*",
    "*.min.js",
    "*.min.mjs",
    "*.min.css",
    "*.bundle.js",
    "*.chunk.js",
    "*_pb2.py",
    "*_pb2.pyi",
    "*_pb2_grpc.py",
    "*.pb.go",
    "*.pb.cc",
    "*.pb.h",
    "dist/",
    "vendor/",
    "third_party/",
    "venv/",
)
# The theme of a site, whose pages are elsewhere; taken where an include glob names the folder.
_THEMES = ("_static", "_templates", "_autoapi_templates", "_layouts", "_themes")
_THEME_PARTS = (
    "**/_includes/**/*.html",
    "**/layouts/_*/**/*.html",
    "**/layouts/partials/**/*.html",
    "**/layouts/shortcodes/**/*.html",
)
_KINDS = {
    "markdown": ".md .markdown .mdx .mdown .mdwn .mkd .mkdn .livemd .qmd .rmd",
    "rst": ".rst .rest",
    "python": ".py .pyi",
    "javascript": ".js .jsx .mjs .cjs",
    "typescript": ".ts .tsx .mts .cts",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx .ipp",
    "csharp": ".cs",
    "php": ".php",
    "ruby": ".rb",
    "kotlin": ".kt .kts",
    "swift": ".swift",
    "shell": ".sh .bash .zsh",
    "pdf": ".pdf",
    "docx": ".docx",
    "pptx": ".pptx",
    "xlsx": ".xlsx .xlsm",
    "html": ".html .htm .xhtml",
    "notebook": ".ipynb",
    "asciidoc": ".adoc .asciidoc .asc .ad",
    "csv": ".csv .tsv",
    "subtitles": ".vtt .srt",
    "text": """
        .txt .text .org .tex .toml .yaml .yml .json .ini .cfg .conf .properties .fish
        .ps1 .bat .cmd .sql .pl .pm .lua .r .jl .scala .dart .ex .exs .erl .hs .ml .clj
        .fs .vb .m .mm .proto .graphql .tf .hcl .gradle .groovy .cmake .mk .vue .svelte .nix .zig .el .lisp .vim
        .service
    """,
}

# Documents that nothing here reads. Who keeps theirs in such files should see that they are no pictures or data.
_UNREAD_DOCUMENTS = frozenset(
    """
    .pod .texi .texinfo .textile .rdoc .mediawiki .wiki .creole .dbk .docbook .scd .man .mdoc .roff .1 .2 .3 .4 .5 .6 .7
    .8 .epub .odt .rtf .doc .ppt .xls .typ .dj .mdc .svx .markdoc
    """.split()  # noqa: SIM905 (one suffix a line would hide the code)
)
# What Fumadocs makes the page of: that beside it which has the rest of the name.
_MODEL = ".model.mdx"
# What stands in the fingerprint of a document that takes something from other files.
TAKEN_MARK = "+"
# Of these most bytes are no text.
DOCUMENT_KINDS = frozenset({"pdf", "docx", "pptx", "xlsx", "html", "notebook"})
_KIND_BY_SUFFIX = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}
# Of a page whose build fills it in, or that should be shown as it is: before it stands what it is written in.
_OUTER_SUFFIXES = frozenset((".erb", ".in", ".txt"))
_MARKUPS = frozenset(("asciidoc", "markdown", "rst"))
_NAMES = """
    dockerfile containerfile makefile gnumakefile justfile jenkinsfile vagrantfile procfile rakefile gemfile brewfile
    cmakelists.txt license licence copying notice readme changelog changes news authors contributors contributing
    install todo faq codeowners maintainers security support
"""
_TEXT_NAMES = frozenset(_NAMES.split())


def fill_template(template: str, path: str, commit: str = "") -> str:
    """Fill `{path}` (percent-encoded) and `{commit}`; `{start}` and `{end}` stay for the chunks.

    >>> fill_template("https://example.org/blob/{commit}/{path}#L{start}", "a b.md", "1f2e")
    'https://example.org/blob/1f2e/a%20b.md#L{start}'
    """
    return template.replace("{commit}", commit).replace("{path}", quote(path, safe="/"))


def derive_template(remote: str) -> str:
    """Return the link template for a repository on a known kind of host, or an empty string."""
    host, path = split_remote(remote)
    path = path.strip("/").removesuffix(".git")
    template = next((template for word, template in _LINK_TEMPLATES if word in host), "")
    return f"https://{host}/{quote(path, safe='/')}{template}" if template and "/" in path else ""


def redact_credentials(text: str) -> str:
    """Blank user names, passwords and query parameters in every address of a text, for messages and logs."""
    # A password may hold quotes, and by mistake a slash: then it stands where the number of a port would.
    text = re.sub(r"(\w://)(?:[^/\s]*|[^/\s:@]*:(?!\d{1,5}(?:[/\s]|\Z))[^\s@]{1,256})@", r"\1", text)
    return re.sub(r"(\w://[^?\s'\"]*+)(?:\?[^\s'\"]*+)?", r"\1", text)


def fingerprint(data: bytes) -> str:
    """Return a hash of content: 32 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(data).hexdigest()[:32]


def drop_partials(fingerprints: dict[str, str], included_paths: Collection[str]) -> Counter[str]:
    """Remove the texts that are there for other pages, and shown by one; return how many, by the reason."""
    partials = {path for path in included_paths if path in fingerprints and is_partial(path)}
    partials |= {
        path for path in fingerprints if path.endswith(_MODEL) and f"{path.removesuffix(_MODEL)}.mdx" in fingerprints
    }
    for path in partials:
        del fingerprints[path]
    return Counter({"part of other pages": len(partials)} if partials else {})


class PathGlobs:
    """Include and exclude globs, ready to judge paths. Raises `SourceError` for a glob that git does not know."""

    def __init__(self, name: str, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = _compile_globs(name, "include", include) if include else None
        self._exclude = _compile_globs(name, "exclude", exclude)

    def matches(self, path: str) -> bool:
        """Return whether the globs accept a path."""
        is_included = self._include is None or self._include.match_file(path)
        return is_included and not self._exclude.match_file(path)

    def excludes(self, path: str) -> bool:
        """Return whether the exclude globs name a path."""
        return bool(self._exclude.match_file(path))


class AddressGlobs(PathGlobs):
    """Globs of the paths of a website, whose queries they do not judge.

    They judge a path in all its spellings: a server may take them for one, in other letters, with parameters, with an
    escaped slash or two of them. So a path is included where it is at the place that the server may take it for, too.
    """

    def __init__(self, name: str, include: Sequence[str], exclude: Sequence[str]) -> None:
        super().__init__(name, include, exclude)
        # A glob that names a spelling still includes it: paths are folded without escapes and parameters.
        folded_include = [re.sub(r";[^/]*", "", unquote(pattern).casefold()) for pattern in include]
        self._folded = PathGlobs(name, folded_include, [pattern.casefold() for pattern in exclude])

    def matches(self, path: str) -> bool:
        """Return whether the globs accept a path."""
        path = path.partition("?")[0]
        return super().matches(path) and self._folded.matches(_fold_address(path))

    def excludes(self, path: str) -> bool:
        """Return whether the exclude globs name a path."""
        path = path.partition("?")[0]
        return super().excludes(path) or self._folded.excludes(_fold_address(path))


class PathFilter:
    """The globs of one source, ready to judge paths; folders that are `left_out` are never entered.

    What `is_closed` names is for fewer people than the source: its pages show it only where it is a document of its
    own. `private_paths`, and copies beside them, are neither documents nor shown. Raises `SourceError` for a glob that
    git would not understand.
    """

    def __init__(
        self,
        name: str,
        settings: DocumentSource,
        left_out: Collection[str] = (),
        is_closed: Callable[[str], bool] = lambda _path: False,
        private_paths: Collection[str] = (),
    ) -> None:
        self._left_out = left_out
        self._is_closed = is_closed
        self._globs = PathGlobs(name, settings.include, settings.exclude)
        self._has_negation = any(pattern.startswith("!") for pattern in settings.exclude)
        uses_defaults = not settings.include
        named = {part for pattern in settings.include for part in pattern.split("/")}
        menus = tuple(menu for menu in _MENUS if menu not in named)
        own = _OWN + _list_private_globs(private_paths)
        generated = _INSTALLED + menus + own + (_GENERATED if uses_defaults else ())
        self._generated = _compile_globs(name, "exclude", generated)
        names_hidden = any(part.startswith(".") for part in named)
        self._hidden = _compile_globs(name, "exclude", () if names_hidden else (".*",))
        themes = [*(set(_THEMES) - named), *(() if {"layouts", "_includes"} & named else _THEME_PARTS)]
        self._themes = _compile_globs(name, "exclude", sorted(themes))
        self._included_suffixes = {PurePosixPath(pattern).suffix.lower() for pattern in settings.include} - {""}
        self._settings = settings
        # Each include asks for the folders above its file.
        self._entered: dict[str, bool] = {}

    def should_enter(self, folder: str) -> bool:
        """Return whether a folder can hold paths that are taken. After a `!` glob, any excluded folder may."""
        if folder not in self._entered:
            is_excluded = not self._has_negation and self._globs.excludes(folder + "/")
            is_left_out = is_excluded or folder in self._left_out or self._generated.match_file(folder + "/")
            self._entered[folder] = not is_left_out
        return self._entered[folder]

    def matches(self, path: str) -> bool:
        """Return whether the configured globs let a path in."""
        return self._globs.matches(path)

    def may_include(self, path: str) -> bool:
        """Return whether a page may show the file at a path: one that is not kept out, which need be no document."""
        parts = path.split("/")
        folders = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        is_hidden = any(part.startswith(".") and part != EDITOR_CONFIG for part in parts) or not all(
            map(self.should_enter, folders)
        )
        if is_hidden or self._globs.excludes(path) or self._generated.match_file(path):
            return False
        return self._globs.matches(path) or not self._is_closed(path)

    def skip_reason(self, path: str, size: int) -> str:
        """Return why a path that the globs let in is still skipped, or an empty string. `size` is in bytes."""
        if self._generated.match_file(path):
            return "generated"
        if self._hidden.match_file(path):
            return "hidden"
        if self._themes.match_file(path):
            return "theme"
        if not self.get_kind(path):
            suffix = _suffix(_base_name(path))
            return f"format {suffix} that is not read" if suffix in _UNREAD_DOCUMENTS else "unknown kind"
        return self.size_reason(path, size)

    def size_reason(self, path: str, size: int) -> str:
        """Return which setting a file of `size` bytes exceeds ("larger than max_file_kb"), or an empty string."""
        return f"larger than {self._size_setting(path)}" if size > self.max_bytes(path) else ""

    def max_bytes(self, path: str) -> int:
        """Return how many bytes a path may have, by its kind."""
        max_kb: int = getattr(self._settings, self._size_setting(path))
        return max_kb * 1024

    def _size_setting(self, path: str) -> str:
        return "max_document_kb" if self.get_kind(path) in DOCUMENT_KINDS else "max_file_kb"

    def get_kind(self, path: str) -> str:
        """Return how to chunk a path, or an empty string for a kind that is not known.

        A suffix that an include glob names (`*.foo`) is read as plain text.
        """
        return detect_kind(path) or ("text" if _suffix(_base_name(path)) in self._included_suffixes else "")


def make_private_check(name: str, private_paths: Collection[str]) -> Callable[[str], bool]:
    """Return whether a path of a source is one of these, or of a copy beside one; all are below "."."""
    globs = _compile_globs(name, "exclude", _list_private_globs(private_paths))
    return lambda path: "." in private_paths or globs.match_file(path)


def _list_private_globs(private_paths: Collection[str]) -> tuple[str, ...]:
    return tuple(f"/{_escape(path)}{suffix}" for path in private_paths for suffix in _COPY_SUFFIXES)


class DocumentBudget:
    """The remaining documents and bytes that one listing of a source may take."""

    def __init__(self, settings: DocumentSource) -> None:
        self._documents_left = settings.max_documents
        self._bytes_left = settings.max_total_mb << 20

    def skip_reason(self, size: int) -> str:
        """Take a document of `size` bytes, and return an empty string; or return why it is skipped."""
        if self._documents_left <= 0:
            return "beyond max_documents"
        if size > self._bytes_left:
            return "beyond max_total_mb"
        self._documents_left -= 1
        self._bytes_left -= size
        return ""


def detect_kind(path: str) -> str:
    """Return the kind of a path by its suffix or name, or an empty string.

    >>> detect_kind("docs/guide.md"), detect_kind("src/main.rs"), detect_kind("logo.png")
    ('markdown', 'rust', '')
    >>> detect_kind("source/index.html.md.erb"), detect_kind("notes.rst.txt"), detect_kind("a.py.txt")
    ('markdown', 'rst', 'text')
    """
    name = _base_name(path)
    suffix = _suffix(name)
    inner_kind = _KIND_BY_SUFFIX.get(_suffix(name.removesuffix(suffix)), "") if suffix in _OUTER_SUFFIXES else ""
    if inner_kind in _MARKUPS:
        return inner_kind
    return "text" if name in _TEXT_NAMES else _KIND_BY_SUFFIX.get(suffix, "")


def _base_name(path: str) -> str:
    return path.rpartition("/")[2].lower()


def _suffix(name: str) -> str:
    """Return what `PurePosixPath(name).suffix` does, for many names at little cost."""
    stem, dot, rest = name.rpartition(".")
    return f".{rest}" if dot and stem and rest else ""


def _fold_address(path: str) -> str:
    """Return a path as a server may understand it.

    >>> _fold_address("//Team;v=1/a%2Fb/"), _fold_address("/team/../c%5Cd")
    ('/team/a/b/', '/c/d')
    """
    segments = unquote(path).replace("\\", "/").casefold().split("/")
    folded = "/".join(segment.partition(";")[0] for segment in segments)
    return normpath(f"/{folded.strip('/')}") + ("/" if folded.strip("/") and folded.endswith("/") else "")


def _escape(path: str) -> str:
    """Return the glob of a path as it is."""
    return re.sub(r"([\\*?\[\s])", r"\\\1", path)


def _compile_globs(name: str, key: str, patterns: Sequence[str]) -> pathspec.GitIgnoreSpec:
    import pathspec

    try:
        return pathspec.GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise SourceError(f"source {name}: {key} holds a glob that cannot be used: {error}") from error
