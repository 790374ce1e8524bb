"""The configuration: how it is put together, and that everything wrong with it is said, in its place and at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.settings import FilesSource, GitSource, Secret, Settings
from core.settings.former_keys import FORMER_KEYS, describe_former_key
from core.settings.loader import find_default_files, get_secret_values, load_settings, parse_value
from core.settings.schema import list_setting_keys
from core.settings.validation_errors import INLINE_SECRET_MESSAGE

ROOT = Path(__file__).parents[3]
KEY = "sk-0123456789abcdef"


def write(folder: Path, text: str, name: str = "kimas.yaml") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def find_problems(
    *files: Path, overrides: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> list[str]:
    with pytest.raises(ConfigurationError) as error_info:
        load_settings(files, overrides, environment or {})
    return list(error_info.value.errors)


def test_nothing_configured_is_valid() -> None:
    settings = load_settings([], (), {})
    assert settings.data_dir == Path("~/.local/share/kimas").expanduser()
    assert settings.model_copy(update={"data_dir": Settings().data_dir}) == Settings()


def test_later_files_win_and_mappings_are_joined(tmp_path: Path) -> None:
    first = write(
        tmp_path, "name: One\nlog: {level: debug, format: json}\ngate: {chats: [telegram:-1, telegram:-2]}\n", "1.yaml"
    )
    second = write(tmp_path, "log: {format: console}\ngate: {chats: [telegram:-3]}\n", "2.yaml")
    settings = load_settings([first, second], (), {})
    assert (settings.name, settings.log.level, settings.log.format) == ("One", "debug", "console")
    assert settings.gate.chats == ("telegram:-3",)


def test_precedence_is_files_then_environment_then_overrides(tmp_path: Path) -> None:
    file = write(tmp_path, "answer: {passages: 1, history_turns: 1}\nrun: {workers: 1}\n")
    environment = {"KIMAS_ANSWER__PASSAGES": "2", "KIMAS_RUN__WORKERS": "2"}
    settings = load_settings([file], ["run.workers=3"], environment)
    assert (settings.answer.history_turns, settings.answer.passages, settings.run.workers) == (1, 2, 3)


def test_null_in_a_later_file_takes_a_section_away(tmp_path: Path) -> None:
    first = write(tmp_path, "telegram: {token: {env: TOKEN}}\n", "1.yaml")
    second = write(tmp_path, "telegram: null\n", "2.yaml")
    assert load_settings([first, second], (), {}).telegram is None


def test_a_secret_is_replaced_as_a_whole(tmp_path: Path) -> None:
    first = write(tmp_path, "telegram: {token: {env: TOKEN}}\n", "1.yaml")
    second = write(tmp_path, "telegram: {token: {file: token.txt}}\n", "2.yaml")
    write(tmp_path, "123:ABC\n", "token.txt")
    settings = load_settings([first, second], (), {})
    assert settings.telegram is not None
    assert settings.telegram.token.file == tmp_path / "token.txt"
    assert get_secret_values(settings) == ("123:ABC",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("", None),
        ("[a, 2, true]", ["a", 2, True]),
        ("[]", []),
        ('["a, b"]', ["a, b"]),
        ("no", "no"),
        ("http://x:1/[y]", "http://x:1/[y]"),
        ('{"a": 1}', {"a": 1}),
    ],
)
def test_values_of_variables_and_overrides(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_text_settings_take_the_value_as_it_stands() -> None:
    overrides = ["models.main.model=4", "models.main.base_url=http://h:1/v1?a=b"]
    main = load_settings([], overrides, {"KIMAS_NAME": "[bot]"}).models.main
    assert main is not None
    assert (main.model, main.base_url) == ("4", "http://h:1/v1?a=b")
    assert load_settings([], overrides, {"KIMAS_NAME": "[bot]"}).name == "[bot]"


def test_a_variable_finds_names_with_hyphens(tmp_path: Path) -> None:
    file = write(tmp_path, "sources: {my-docs: {kind: files, path: .}}\n")
    settings = load_settings([file], (), {"KIMAS_SOURCES__MY_DOCS__MAX_FILE_KB": "7"})
    source = settings.sources["my-docs"]
    assert isinstance(source, FilesSource)
    assert source.max_file_kb == 7


def test_a_secret_may_stand_in_the_variable_of_its_setting() -> None:
    name = "KIMAS_TELEGRAM__TOKEN"
    settings = load_settings([], (), {name: "123:ABC"})
    assert settings.telegram is not None
    assert settings.telegram.token == Secret(env=name)


class TestPaths:
    def test_are_relative_to_the_file_that_names_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        current_folder = tmp_path / "here"
        for folder in ("etc/docs", "etc/more/faq", "here/over", "etc/repo"):
            (tmp_path / folder).mkdir(parents=True)
        first = write(
            tmp_path / "etc",
            "data_dir: ../data\nsources:\n  a: {kind: files, path: docs}\n  b: {kind: files, path: docs}\n"
            "  c: {kind: git, url: repo}\n  d: {kind: git, url: ./repo}\n  e: {kind: git, url: 'https://h/repo'}\n",
        )
        second = write(tmp_path / "etc/more", "sources:\n  f: {kind: faq, path: faq}\n")
        monkeypatch.chdir(current_folder)
        settings = load_settings([first, second], ["sources.b.path=over"], {})
        paths = {name: getattr(source, "path", None) for name, source in settings.sources.items()}
        assert settings.data_dir == tmp_path / "data"
        assert paths["a"] == tmp_path / "etc/docs"
        assert paths["b"] == current_folder / "over"
        assert paths["f"] == tmp_path / "etc/more/faq"
        urls = [source.url for source in settings.sources.values() if isinstance(source, GitSource)]
        assert urls == [str(tmp_path / "etc/repo")] * 2 + ["https://h/repo"]

    def test_of_a_file_given_by_a_relative_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "etc", "data_dir: data\n")
        monkeypatch.chdir(tmp_path)
        assert load_settings([Path("etc/kimas.yaml")], (), {}).data_dir == tmp_path / "etc/data"

    def test_may_start_at_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert load_settings([write(tmp_path, "data_dir: ~/data\n")], (), {}).data_dir == tmp_path / "data"

    def test_of_a_variable_start_at_the_current_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert load_settings([], (), {"KIMAS_DATA_DIR": "d"}).data_dir == tmp_path / "d"


class TestErrors:
    def test_all_are_told_at_once_with_their_lines(self, tmp_path: Path) -> None:
        file = write(
            tmp_path,
            "name: 5\n"
            "data_dri: x\n"
            "sources:\n"
            "  docs:\n"
            "    kind: files\n"
            "    path: .\n"
            "    max_file_kb: many\n"
            "    inclued: [a]\n"
            "  two: {kind: fils}\n"
            "  three: {path: x}\n"
            "  four: {kind: git}\n"
            "  Five!: {kind: git, url: u}\n"
            "agents:\n"
            "  a:\n"
            "    sources:\n"
            "      - docs\n"
            "      - tow\n"
            "    scale: -1\n"
            "  b: {sources: []}\n"
            "knowledge:\n"
            "  search: {alpha: 2, rerank: foo}\n"
            "  embedding: {provider: openai}\n"
            "log:\n"
            "run: [1]\n"
            "gate: {private: maybe}\n",
        )
        assert find_problems(file) == [
            f"{file}:1: name: must be text, not 5: put it in quotes",
            f"{file}:2: data_dri: unknown key; did you mean data_dir?",
            f"{file}:7: sources.docs.max_file_kb: must be an integer, not 'many'",
            f"{file}:8: sources.docs.inclued: unknown key; did you mean include?",
            f"{file}:9: sources.two.kind: unknown kind 'fils'; the kinds are faq, feed, files, git, github, gitlab, "
            "http_api, learned, mcp, own, remote_rag, search_api, standing, website",
            f"{file}:10: sources.three.kind: is missing; the kinds are faq, feed, files, git, github, gitlab, "
            "http_api, learned, mcp, own, remote_rag, search_api, standing, website",
            f"{file}:10: sources.three.path: does not exist: {tmp_path / 'x'}",
            f"{file}:11: sources.four.url: is missing",
            f"{file}:12: sources.Five!: is no name: use small letters, digits, - and _, at most 63, "
            "and start with a letter or digit",
            f"{file}:17: agents.a.sources.1: no source is named 'tow'; did you mean two?",
            f"{file}:18: agents.a.scale: must be greater than 0, not -1",
            f"{file}:19: agents.b.sources: must have at least 1 item",
            f"{file}:21: knowledge.search.alpha: must be less than or equal to 1, not 2",
            f"{file}:21: knowledge.search.rerank: must be 'auto', 'embedding', 'api', 'model', 'cross_encoder', "
            "'fastembed' or 'none', not 'foo'",
            f"{file}:22: knowledge.embedding: provider openai needs base_url, model and dimension",
            f"{file}:23: log: must be a mapping, not nothing",
            f"{file}:24: run: must be a mapping, not a list",
            f"{file}:25: gate.private: must be true or false, not 'maybe'",
        ]

    def test_a_value_of_another_pattern_is_told_its_own(self, tmp_path: Path) -> None:
        file = write(tmp_path, "knowledge: {store: {weaviate: {collection: kimas, tenant: 'a b'}}}\n")
        first, second = find_problems(file)
        assert first == (
            f"{file}:1: knowledge.store.weaviate.collection: must match ^[A-Z][A-Za-z0-9]{{0,60}}$ "
            "(how the names of its two collections begin: a capital, then letters and digits)"
        )
        assert second.startswith(f"{file}:1: knowledge.store.weaviate.tenant: must match ^[A-Za-z0-9_-]{{0,64}}$ (")

    def test_what_the_whole_makes_wrong_has_the_line_of_its_place(self, tmp_path: Path) -> None:
        text = "gate:\n  chats: [slack:C1]\nslack: {bot_token: {env: A}, app_token: {env: B}}\nsources:\n"
        file = write(tmp_path, f"{text}  faq:\n    kind: faq\n    path: .\n    audience: [slack:C9]\n")
        environment = {"A": "xoxb-1", "B": "xapp-1"}
        [problem] = find_problems(file, environment=environment)
        assert problem.startswith(f"{file}:8: sources.faq.audience: the bot does not answer in 'slack:C9'")
        override = 'sources.faq.audience=["slack:C8"]'
        [problem] = find_problems(file, overrides=(override,), environment=environment)
        assert problem.startswith("--set: sources.faq.audience: the bot does not answer in 'slack:C8'")

    def test_an_unknown_key_is_compared_with_those_of_its_kind_only(self, tmp_path: Path) -> None:
        file = write(tmp_path, "sources: {a: {kind: git, url: 'https://h/r', pth: x, git: y}}\n")
        first, second = find_problems(file)
        assert first.startswith(f"{file}:1: sources.a.git: unknown key")
        assert second == (
            f"{file}:1: sources.a.pth: unknown key; known here: "
            "audience, branch, branches, exclude, host_keys, include, kind, known_hosts, link, max_document_kb, "
            "max_documents, max_file_kb, max_total_mb, refresh, ssh_key, timeout_s, token, url, username"
        )

    def test_are_told_in_the_order_of_the_files(self, tmp_path: Path) -> None:
        first = write(tmp_path, "\n\n\nnmae: x\n", "z.yaml")
        second = write(tmp_path, "nmae: y\nrun: {workers: 0}\n", "a.yaml")
        messages = find_problems(first, second, overrides=("log.level=loud",))
        assert [line.split(": ")[0] for line in messages] == [f"{second}:1", f"{second}:2", "--set"]

    def test_name_the_file_that_set_the_value(self, tmp_path: Path) -> None:
        first = write(tmp_path, "run:\n  workers: 0\n  grace_s: 0\n", "1.yaml")
        second = write(tmp_path, "run: {grace_s: -1}\n", "2.yaml")
        assert find_problems(first, second) == [
            f"{first}:2: run.workers: must be greater than 0, not 0",
            f"{second}:1: run.grace_s: must be greater than 0, not -1",
        ]

    def test_missing_configuration(self, tmp_path: Path) -> None:
        (line,) = find_problems(tmp_path / "no.yaml")
        assert line.startswith(f"{tmp_path / 'no.yaml'}: cannot be read: No such file")
        assert "kimas init" in line

    def test_broken_yaml_names_line_and_column_and_all_files_are_read(self, tmp_path: Path) -> None:
        first = write(tmp_path, "name: [x\n", "1.yaml")
        second = write(tmp_path, "a: b: c\n", "2.yaml")
        line, two = find_problems(first, second)
        assert line.startswith(f"{first}:2:1: not valid YAML")
        assert two.startswith(f"{second}:1:5: not valid YAML")

    @pytest.mark.parametrize("text", ["- a\n", "just words\n", "5\n"])
    def test_no_mapping(self, tmp_path: Path, text: str) -> None:
        file = write(tmp_path, text)
        assert find_problems(file) == [f"{file}:1: must be a mapping of keys to values"]

    def test_missing_source_files(self, tmp_path: Path) -> None:
        file = write(
            tmp_path,
            "sources:\n  a: {kind: files, path: no}\n  b: {kind: faq, path: no.csv}\n  c: {kind: git, url: ./no}\n",
        )
        assert find_problems(file) == [
            f"{file}:2: sources.a.path: does not exist: {tmp_path}/no",
            f"{file}:3: sources.b.path: does not exist: {tmp_path}/no.csv",
            f"{file}:4: sources.c.url: does not exist: {tmp_path}/no",
        ]

    def test_a_placeholder_that_nothing_fills(self, tmp_path: Path) -> None:
        sources = (
            "a: {kind: git, url: ., link: 'https://x/{commit}/{path}#L{start}-{end}'}",
            "b: {kind: git, url: ., link: 'https://x/{pth}'}",
            "c: {kind: files, path: ., link: 'https://x/{commit}/{path}'}",
            "d: {kind: faq, path: a.csv, link: 'https://x/{line}'}",
        )
        (tmp_path / "a.csv").touch()
        file = write(tmp_path, "sources:\n" + "".join(f"  {source}\n" for source in sources))
        known_names = "a template may contain {path}, {start}, {end}"
        assert find_problems(file) == [
            f"{file}:3: sources.b: link: nothing fills {{pth}}; {known_names}, {{commit}}",
            f"{file}:4: sources.c: link: nothing fills {{commit}}; {known_names}",
            f"{file}:5: sources.d: link: nothing fills {{line}}; {known_names}",
        ]

    def test_a_default_strategy_that_is_not_allowed(self, tmp_path: Path) -> None:
        file = write(tmp_path, "strategies:\n  allowed: [none, planning]\n")
        (line,) = find_problems(file)
        assert line.startswith(f"{file}:1: strategies: default: single is not among allowed (none, planning)")
        file.write_text("strategies:\n  allowed: [none, planning]\n  default: planning\n", "utf-8")
        assert load_settings([file], (), {}).strategies.default == "planning"
        # Of one alone nobody chooses.
        file.write_text("strategies:\n  allowed: [react]\n", "utf-8")
        assert load_settings([file], (), {}).strategies.allowed == ("react",)

    @pytest.mark.parametrize("key", FORMER_KEYS)
    def test_a_key_of_an_earlier_version_says_what_became_of_it(self, key: str, tmp_path: Path) -> None:
        name = "main" if key.startswith("models.") else "docs"
        steps = [name if step == "*" else step for step in key.split(".")]
        lines = [f"{'  ' * depth}{step}:" for depth, step in enumerate(steps)]
        if steps[0] == "sources":
            lines.insert(2, "    kind: remote_rag")
        problems = find_problems(write(tmp_path, "\n".join(lines) + " 1\n"))
        place = f"{tmp_path / 'kimas.yaml'}:{len(lines)}: {'.'.join(steps)}: is not a setting any more"
        assert any(problem.startswith(place) for problem in problems)
        variable = "KIMAS_" + "__".join(steps).upper()
        (problem,) = find_problems(environment={variable: "1"})
        assert problem.startswith(f"environment variable {variable}: is not a setting any more")

    def test_no_former_key_is_a_setting(self) -> None:
        keys = {".".join(key.path) for key in list_setting_keys()}
        assert keys & set(FORMER_KEYS) == set()

    def test_malformed_override(self) -> None:
        assert find_problems(overrides=("name",)) == ["--set: must be path.to.key=value"]
        assert find_problems(overrides=("a..b=1",)) == ["--set: must be path.to.key=value"]

    def test_unknown_override(self) -> None:
        assert find_problems(overrides=("run.wokers=1",)) == ["--set: run.wokers: unknown key; did you mean workers?"]

    def test_a_key_of_an_earlier_version_is_said_to_be_gone(self, tmp_path: Path) -> None:
        file = write(tmp_path, "models:\n  light:\n    base_url: x\n    model: x\n    hedge_after_s: 1\n")
        environment = {"KIMAS_MODELS__MAIN__HEDGE_SHARE": "0.1"}
        assert find_problems(file, environment=environment) == [
            f"{file}:5: models.light.hedge_after_s: is not a setting any more (no endpoint is asked twice; "
            "first_token_s says when another one takes over): remove it (docs/install.md)",
            "environment variable KIMAS_MODELS__MAIN__HEDGE_SHARE: is not a setting any more (no endpoint is asked "
            "twice): remove it (docs/install.md)",
        ]

    def test_no_setting_is_listed_as_gone(self) -> None:
        paths = [key.path for key in list_setting_keys()]
        assert [path for path in paths if describe_former_key(path)] == []

    def test_unknown_variables_name_the_nearest(self) -> None:
        environment = {"KIMAS_MODLES__MAIN__MODEL": "x", "KIMAS_SOURCES__A__PTH": "x", "PATH": "x"}
        assert find_problems(environment=environment) == [
            "environment variable KIMAS_MODLES__MAIN__MODEL: "
            "names no setting; the nearest is KIMAS_MODELS__MAIN__MODEL",
            "environment variable KIMAS_SOURCES__A__PTH: names no setting; the nearest is KIMAS_SOURCES__A__PATH",
        ]

    def test_a_variable_that_a_file_has_set_is_named_with_it(self) -> None:
        environment = {"KIMAS_API_WEBUI": "x", "KIMAS_RUN__WORKERS": "many", "KIMAS_MODELS__MAIN__HEDGE_SHARE": "1"}
        file = Path("/srv/kimas.env")
        with pytest.raises(ConfigurationError) as error_info:
            load_settings([], (), environment, variable_files=dict.fromkeys(environment, file))
        assert len(error_info.value.errors) == len(environment)
        for name, error in zip(sorted(environment), sorted(error_info.value.errors), strict=True):
            assert error.startswith(f"environment variable {name}, set by {file}: ")

    def test_wrong_variable(self) -> None:
        assert find_problems(environment={"KIMAS_RUN__WORKERS": "many"}) == [
            "environment variable KIMAS_RUN__WORKERS: run.workers: must be an integer, not 'many'"
        ]

    def test_variables_of_tests_and_secrets_are_none(self, tmp_path: Path) -> None:
        file = write(tmp_path, "telegram: {token: {env: KIMAS_BOT}}\n")
        load_settings([file], (), {"KIMAS_BOT": "x", "KIMAS_TEST_SLOW": "1"})
        load_settings([], (), {"KIMAS_BOT_TOKEN": "x", "KIMAS_MODEL_API_KEY": "x"})
        assert len(find_problems(environment={"KIMAS_BOT": "x"})) == 1
        assert len(find_problems(environment={"KIMAS_TELEGRAN__TOKEN": "x"})) == 1


class TestSecrets:
    @pytest.mark.parametrize(
        "text",
        [
            f"telegram: {{token: {KEY}}}",
            "telegram: {token: 12345}",
            "telegram: {token: }",
            f"models: {{main: {{base_url: x, model: y, api_key: {KEY}}}}}",
        ],
    )
    def test_in_the_file_are_refused_and_not_repeated(self, tmp_path: Path, text: str) -> None:
        (line,) = find_problems(write(tmp_path, text + "\n"))
        assert line.endswith(INLINE_SECRET_MESSAGE)
        assert KEY not in line

    @pytest.mark.parametrize(
        "text",
        [
            f"telegram: {KEY}",
            f"telegram: {{token: {{env: {KEY}}}}}",
            f"telegram: {{token: {{env: [{KEY}]}}}}",
            f"telegram: {{token: {{env: X, file: [{KEY}]}}}}",
            f"models: {KEY}",
            f"gate: {{chats: {KEY}}}",
        ],
    )
    def test_in_a_wrong_place_are_not_repeated(self, tmp_path: Path, text: str) -> None:
        assert not any(KEY in line for line in find_problems(write(tmp_path, text + "\n"), environment={"X": "x"}))

    def test_on_the_command_line_are_refused_and_not_repeated(self) -> None:
        assert find_problems(overrides=("telegram.token=" + KEY,)) == [
            f"--set: telegram.token: {INLINE_SECRET_MESSAGE}"
        ]

    def test_missing_ones(self, tmp_path: Path) -> None:
        file = write(
            tmp_path,
            "telegram: {token: {env: NOT_SET}}\nmodels:\n  main:\n    base_url: x\n    model: y\n"
            "    api_key: {file: no.txt}\n  light: {base_url: x, model: y, api_key: {file: empty.txt}}\n",
        )
        write(tmp_path, "\n", "empty.txt")
        assert find_problems(file) == [
            f"{file}:1: telegram.token: environment variable NOT_SET is not set: "
            "set it, or write it into the file of secrets beside the configuration (kimas.env)",
            f"{file}:6: models.main.api_key: file {tmp_path}/no.txt cannot be read: No such file or directory",
            f"{file}:7: models.light.api_key: file {tmp_path}/empty.txt is empty",
        ]
        assert load_settings([file], (), {}, require_secrets=False).telegram is not None

    def test_need_exactly_one_place(self, tmp_path: Path) -> None:
        file = write(tmp_path, "telegram: {token: {}}\n")
        assert find_problems(file) == [
            f"{file}:1: telegram.token: give exactly one of env (a variable's name) or file (a path)"
        ]

    def test_are_listed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONE", "value-one")
        monkeypatch.delenv("TWO", raising=False)
        settings = Settings.model_validate(
            {"telegram": {"token": {"env": "ONE"}}, "knowledge": {"embedding": {"api_key": {"env": "TWO"}}}}
        )
        assert set(settings.secrets()) == {"telegram.token", "knowledge.embedding.api_key"}
        assert get_secret_values(settings) == ("value-one",)


def test_the_default_file_is_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "etc")}
    if not os.path.exists("/etc/kimas/kimas.yaml"):
        with pytest.raises(ConfigurationError, match="kimas init"):
            find_default_files(environment)
    own_file = write(tmp_path / "etc/kimas", "name: Mine\n")
    assert find_default_files(environment) == (own_file,)
    write(tmp_path / "work", "name: Here\n")
    assert find_default_files(environment) == (Path("kimas.yaml"),)


class TestShippedFiles:
    @pytest.mark.parametrize(
        "file",
        sorted(
            set((ROOT / "config").rglob("*.yaml"))
            - {ROOT / "config/compose.yaml", ROOT / "config/presets/agentscope/faq.yaml"}
        ),
        ids=lambda file: file.stem,
    )
    def test_every_file_is_valid_and_names_its_schema(self, file: Path) -> None:
        first = file.read_text("utf-8").split("\n", 1)[0]
        assert first.startswith("# yaml-language-server: $schema=")
        assert (file.parent / first.partition("=")[2]).resolve() == ROOT / "config/schema.json"
        load_settings([file], (), {}, require_secrets=False)

    def test_the_defaults_are_the_defaults(self) -> None:
        assert load_settings([ROOT / "config/default.yaml"], (), {}) == load_settings([], (), {})
