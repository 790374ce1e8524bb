"""Reading YAML: plain data, lines, and errors that name the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.settings.yaml_file import YamlFile, YamlFileError, read_yaml


def read(folder: Path, text: str | bytes) -> YamlFile:
    file = folder / "a.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_yaml(file)


def test_scalars_are_those_of_the_core_schema(tmp_path: Path) -> None:
    text = "a: [1, -2, 0x1f, 1.5, 1e3, true, False, null, ~, '5', no, on, 12:30, 2024-05-01, 007, .inf, 1_000]\n"
    expected = [
        1,
        -2,
        31,
        1.5,
        1000.0,
        True,
        False,
        None,
        None,
        "5",
        "no",
        "on",
        "12:30",
        "2024-05-01",
        "007",
        ".inf",
        "1_000",
    ]
    data = read(tmp_path, text).data["a"]
    assert data == expected
    assert list(map(type, data)) == list(map(type, expected))


def test_lines_of_keys_and_items(tmp_path: Path) -> None:
    file = read(tmp_path, "# comment\na: 1\nb:\n  - x: 1\n  -\n    y: 2\n3: z\n")
    assert [file.get_line(keys) for keys in (["a"], ["b"], ["b", 0], ["b", 1, "y"], [3])] == [2, 3, 4, 6, 7]
    assert file.get_line(["b", 0, "missing", "deep"]) == 4
    assert file.get_line(["missing"]) == 1
    assert file.get_line([]) == 1


def test_aliases_and_byte_order_marks(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &x [1]\nb: *x\n").data == {"a": [1], "b": [1]}
    assert read(tmp_path, "\ufeffa: é\n").data == {"a": "é"}
    assert read(tmp_path, "a: é\n".encode("utf-16")).data == {"a": "é"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_has_no_data(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).data is None


BOMB = "a: &a [1, 1]\n" + "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\n  2\nc: 3\n", r"a\.yaml:4:\d+: not valid YAML"),
        ("a: 1\n\tb: 2\n", r"a\.yaml:2:\d+: not valid YAML"),
        ("a:\n\tb: 2\n", r"a\.yaml:2:1: not valid YAML: .*; if it is a tab, put spaces in its place"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", r"a\.yaml:4:3: the key 'b' is given twice \(first on line 2\)"),
        ("a: 1\n--- \nb: 2\n", r"a\.yaml:2:1: not valid YAML"),
        ("a: !!python/object/apply:os.getcwd []\n", r"a\.yaml:1:4: the tag .* is not supported"),
        ("a: !!int x\n", r"a\.yaml:1:4: 'x' does not fit its tag int"),
        ("a: &x\n  b: *x\n", r"a\.yaml:1:4: an alias makes this value contain itself"),
        ("? [1]\n: 2\n", r"a\.yaml:1:3: a key must be a single word or number"),
        ("a: *nowhere\n", r"a\.yaml:1:4: not valid YAML: found undefined alias.*begins with \* needs quotes"),
        ("name: Bot: the bot\n", r"a\.yaml:1:10: not valid YAML.*; a value with \": \" in it needs quotes"),
        ("include: [*.md]\n", r"a\.yaml:1:12: not valid YAML.*; a value that begins with \* or & needs quotes"),
        ("name: @kimas\n", r"a\.yaml:1:7: not valid YAML.*; a value that begins with this character needs quotes"),
        ("[" * 200 + "]" * 200, r"a\.yaml:1:\d+: is nested deeper than 100 levels"),
        ("[" * 100_000, r"a\.yaml:1:101: is nested deeper than 100 levels"),
        (BOMB.replace("b0", "a"), r"a\.yaml:\d+:\d+: has more than 1000000 values"),
        (b"a: 1\nb: \xff\n", r"a\.yaml:2:1: is not readable text"),
        (b"a: \0\n", r"a\.yaml: is not readable text"),
    ],
)
def test_faults_name_the_place(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(YamlFileError, match=message):
        read(tmp_path, text)


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(YamlFileError, match=r"nowhere\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "nowhere.yaml")
