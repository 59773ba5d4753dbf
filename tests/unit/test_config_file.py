"""Options from files: the same in TOML, JSON and YAML, checked by the table, in their order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as some

from pyhybrid import Profiler
from pyhybrid.cli import main
from pyhybrid.cli.config import _setting
from pyhybrid.cli.run import in_force, make_parser
from pyhybrid.errors import UsageError
from pyhybrid.options import config_file
from pyhybrid.options.config_file import Configuration, known, of_command_line, read, with_files
from pyhybrid.options.kinds import Choice, Flag, Log, Number, Option, Seconds, StartAt, Switch
from pyhybrid.options.lists import Names, NumberRanges, Sinks, SnapshotRules, TorchWords
from pyhybrid.options.settings import Settings
from pyhybrid.options.table import FUNCTION_TABLES, Options, ProfilerOptions

BY_KEY = {each.key: each for each in known()}
# PyYAML does not write all control characters as it reads them.
TEXTS = some.text(some.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20)


def values(option: Option) -> some.SearchStrategy[Any]:
    """Such as a file may have for this option."""
    match option.kind:
        case Flag() | Switch():
            return some.booleans()
        case Number(low=low, high=high):
            return some.integers(low, high) if option.name != "ring_bytes" else some.just(65536)
        case Choice(known=names):
            return some.sampled_from(list(names))
        case Log():
            return some.booleans() | some.integers(1, 999_999_999).map(lambda n: f"{n}ms")
        case TorchWords(known=names):
            part = some.integers(1, 999)
            gpu = some.builds(lambda n, more: f"gpu={n}/{n + more}", part, some.integers(0, 9999))
            return some.lists(some.sampled_from(list(names)) | gpu, max_size=3)
        case Sinks():
            return some.lists(some.sampled_from(["print", "print:tree"]), max_size=1)
        case NumberRanges():
            return some.sampled_from(["0", "0,8,16-23"])
        case Seconds():
            return some.integers(2, 10**6).map(lambda n: f"{n}s")
        case SnapshotRules():
            return some.lists(some.sampled_from(["cpu > 90 %", "signal USR1"]), max_size=2)
        case StartAt():
            return some.sampled_from(["step=100", "/10s"])
        case Names(known=names) if names:
            return some.lists(some.sampled_from(list(names)), max_size=3)
    patterns = some.from_regex(r"[a-zäß]{1,20}", fullmatch=True)
    return some.lists(patterns, max_size=3) if isinstance(option.kind, Names) else TEXTS


FILES = some.fixed_dictionaries(
    {}, optional={key: values(option) for key, option in BY_KEY.items()}
)


NAMES = some.from_regex(r"[A-Za-z_äß.*:\"\\\\ ]{1,20}", fullmatch=True)
FUNCTIONS = some.lists(
    some.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "lines": some.booleans(),
            "arguments": some.booleans(),
            "usage": some.lists(
                some.sampled_from(["cpu", "memory", "process"]), min_size=1, unique=True
            ),
            "slower_than": some.integers(1, 999_999).map(lambda n: f"{n}us"),
        },
    ),
    min_size=1,
    max_size=4,
)


WRONG_IN_TABLES: list[tuple[dict[str, Any], str]] = [
    ({"slower_then": "1ms"}, "'slower_then': the nearest one is 'slower_than'"),
    ({"lines": "yes"}, "lines: "),
    ({"usage": ["gpu"]}, "usage: "),
    ({"slower_than": "soon"}, "slower_than: "),
    ({"name": 7}, "name: "),
]


def toml_of(keys: dict[str, Any]) -> str:
    return "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n".replace("\x7f", "\\u007f")
        for key, value in keys.items()
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, in no project."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(config_file.VARIABLE, raising=False)
    return tmp_path


def configured(*paths: str, **more: Any) -> Configuration:
    return of_command_line({"config": list(paths), **more} if paths else more)


@pytest.mark.exhaustive
# Without shrinking: what has failed is small enough to see.
@settings(max_examples=50, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(keys=FILES)
def test_all_forms_say_the_same(tmp_path_factory: pytest.TempPathFactory, keys: dict) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.toml").write_text(toml_of(keys))
    (folder / "a.json").write_text(json.dumps(keys))
    (folder / "a.yaml").write_text(yaml.safe_dump(keys, allow_unicode=True))
    found = []
    for end in ("toml", "json", "yaml"):
        configuration = Configuration()
        path = str(folder / f"a.{end}")
        configuration.add(path, read(path))
        assert set(configuration.sources.values()) <= {path}
        found.append(configuration.values)
    assert found[0] == found[1] == found[2]
    assert found[0].keys() == {BY_KEY[key].name for key in keys}
    for key, value in keys.items():
        option = BY_KEY[key]
        of_file = found[0][option.name]
        written = option.kind.to_file(of_file)  # and what is written is read as the same
        assert option.kind.from_file(written) == of_file
        if not isinstance(option.kind, Log):
            assert written == value


@pytest.mark.exhaustive
@settings(max_examples=50, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(tables=FUNCTIONS)
def test_tables_of_functions_say_the_same_in_all_forms(
    tmp_path_factory: pytest.TempPathFactory, tables: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    toml = "".join(f"[[function]]\n{toml_of(table)}" for table in tables)
    (folder / "a.toml").write_text(toml)
    (folder / "a.json").write_text(json.dumps({"function": tables}))
    (folder / "a.yaml").write_text(yaml.safe_dump({"function": tables}, allow_unicode=True))
    found = []
    for end in ("toml", "json", "yaml"):
        configuration = Configuration()
        configuration.add(f"a.{end}", read(str(folder / f"a.{end}")))
        assert configuration.values.keys() == {"function_settings"}
        found.append(Settings(**configuration.values))
    assert vars(found[0]) == vars(found[1]) == vars(found[2])
    parsed = list(FUNCTION_TABLES.parsed(found[0].function_settings))
    assert [table["name"] for table in parsed] == [table["name"] for table in tables]
    for table, was in zip(parsed, tables, strict=True):
        assert table.keys() == was.keys()
        for key, value in table.items():
            expected = int(was[key][:-2]) * 1000 if key == "slower_than" else was[key]
            assert FUNCTION_TABLES.keys[key].to_file(value) == expected, key
    # What `config --show` prints of it is such a file.
    shown = tomllib.loads(_setting(BY_KEY["function"], tables))
    assert shown == {"function": tables}


@settings(max_examples=50, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(tables=FUNCTIONS, at=some.integers(0, 3), wrong=some.sampled_from(WRONG_IN_TABLES))
def test_what_is_wrong_in_a_table_is_one_line(
    tables: list[dict[str, Any]], at: int, wrong: tuple[dict[str, Any], str]
) -> None:
    change, said = wrong
    changed = [*tables]
    changed[at % len(tables)] = {**tables[at % len(tables)], **change}
    with pytest.raises(UsageError, match=said) as raised:
        Configuration().add("a.toml", {"function": changed})
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("a.toml: ")


WORDS = "--hz 7 -t f -t g --events=1.5s --no-kernel --c-calls -o x --max-depth 9 -q"


def test_a_file_and_the_command_line_agree(folder: Path) -> None:
    (folder / "a.toml").write_text(
        'hz = 7\nfunction = ["f", "g"]\nevents = "1.5s"\nkernel = false\nc-calls = true\n'
        'output = "x"\nmax-depth = 9\nquiet = true\n'
    )
    words = vars(make_parser(defaults=False).parse_args(WORDS.split()))
    assert configured("a.toml").values == words


LONG = {flag[2:] for each in Options.options.values() for flag in each.flags if flag[:2] == "--"}
OF_FILES = {"config", "no-config"}  # what chooses the files cannot stand in one
PERFSTUBS = {f"{which}_{what}" for which in ("include", "exclude") for what in ("timers", "files")}


def words_of(option: Option, value: Any) -> list[str]:
    """The command line for what a file has."""
    (flag,) = [flag for flag in option.flags if flag.startswith("--")]
    match option.kind:
        case Flag():
            return [flag] * value
        case Switch():
            return [flag if value else f"--no-{flag[2:]}"]
        case Log() if isinstance(value, bool):
            return [flag] * value
    each = value if isinstance(value, list) else [value]
    # With `=`, since a value may begin with a dash.
    return [f"{flag}={text}" for text in each]


@pytest.mark.parametrize("key", sorted(BY_KEY.keys() - PERFSTUBS))
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(data=some.data())
def test_each_option_by_its_long_name(key: str, data: some.DataObject) -> None:
    option, value = BY_KEY[key], data.draw(values(BY_KEY[key]))
    configuration = Configuration()
    configuration.add("a.toml", tomllib.loads(toml_of({key: value})))
    said = vars(make_parser(defaults=False).parse_args(words_of(option, value)))
    assert said in ({}, configuration.values)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("131072", 1 << 17), ("128K", 1 << 17), ("1073741824G", 1 << 60)]
    + [(text, None) for text in ("1", "131071", "2147483648G", "-1", "64MB", "M", "", "9" * 30)],
)
def test_sizes(text: str, size: int | None) -> None:
    kind = BY_KEY["max-timeline"].kind
    if size is None:
        with pytest.raises(ValueError, match="is not a size of 128K or more, like 64M or 2G"):
            kind.parse(text)
    else:
        assert kind.parse(text) == size


def test_every_option_of_the_command_line_is_a_key() -> None:
    assert BY_KEY.keys() - PERFSTUBS == LONG - OF_FILES


def test_what_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text(
        "[tool.pyhybrid]\nhz = 1\nmax-depth = 1\nmax-nodes = 1\ninclude = ['a']\nstrict = true\n"
    )
    (folder / "v.toml").write_text("hz = 2\nmax-depth = 2\ninclude = ['b']\n")
    (folder / "w.json").write_text('{"hz": 3, "max-nodes": 3}')
    (folder / "x.json").write_text('{"hz": 4}')

    def holds(*names: str, **given: Any) -> tuple[Any, ...]:
        asked = in_force(given, of_command_line(given))
        return tuple(asked[name] for name in names)

    names = ("hz", "max_depth", "max_nodes", "include", "strict")
    assert holds(*names) == (1, 1, 1, ["a"], True)
    monkeypatch.setenv(config_file.VARIABLE, "v.toml")
    assert holds(*names) == (2, 2, 1, ["b"], True)
    assert holds(*names, config=["w.json"]) == (3, 1, 3, ["a"], True)
    assert holds(*names, config=["w.json", "x.json"]) == (4, 1, 3, ["a"], True)
    assert holds(*names, config=["w.json"], hz=9, include=["c"]) == (9, 1, 3, ["c"], True)
    assert holds(*names, no_config=True) == (999, 2048, 2_000_000, (), False)


def test_the_nearest_project_that_has_a_table(folder: Path) -> None:
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.pyhybrid]\nhz = 5")
    (folder / "a" / "pyproject.toml").write_text("[project]\ndependencies = ['pyhybrid']")
    os.chdir(inner)
    assert configured().values == {"hz": 5}
    assert configured().files == [str(folder / "pyproject.toml")]
    (folder / "a" / "pyproject.toml").write_text("[tool]\npyhybrid.hz = 6")
    assert configured().values == {"hz": 6}
    (folder / "a" / "pyproject.toml").unlink()
    (folder / "a" / ".git").touch()  # of a worktree
    assert configured().values == {}


@pytest.mark.needs("root")
def test_a_project_of_another_user_is_none(folder: Path) -> None:
    """In /tmp, say: an option may name a library to load."""
    (folder / "pyproject.toml").write_text("[tool.pyhybrid]\nhz = 5")
    os.chown(folder / "pyproject.toml", 12345, -1)
    assert configured().values == {}
    os.chown(folder, 12345, -1)
    assert configured().values == {"hz": 5}


@pytest.mark.needs("installed")
def test_a_parser_is_imported_only_for_a_table(folder: Path) -> None:
    program = "import sys; from pyhybrid.options.config_file import of_command_line as f; f({});"
    program += "assert not {'tomllib', 'yaml', 'json', 'difflib'} & set(sys.modules)"
    (folder / "pyproject.toml").write_text("[project]\nname = 'pyhybrid'\ndependencies = []")
    subprocess.run([sys.executable, "-P", "-c", program], check=True)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "hzz = 5", "a.toml: there is no option 'hzz': the nearest one is 'hz'"),
        ("a.toml", "hz = 5\nc_calls = true\nc-calls = true", "'c_calls' and 'c-calls' are one"),
        ("a.toml", "[[function]]\nlines = true", "function: a table needs 'name': {'lines': True}"),
        ("a.toml", "[function]\nname = 'f'", "function is a list of tables: [[function]] in TOML"),
        ("a.toml", "[tool.pyhybrid]\nhz = 5", "a.toml: options stand at the top level, not in a"),
        ("a.toml", "[[function]]\nname = 5", "a.toml: function: name: 5 is not a text"),
        ("a.toml", "[[function]]\nname = 'f'\nargument = true", "'argument': the nearest one is"),
        ("a.toml", "[[function]]\nname = 'f'\nslower_than = 5", "slower_than: 5 is not a text"),
        ("a.toml", "function = [5]", "a.toml: function: [5] is neither a text nor a list"),
        ("a.json", '{"fromat": []}', "the nearest one is 'format'"),
        ("a.json", '{"config": "b.json"}', "there is no option 'config'"),
        ("a.toml", "no-config = true", "there is no option 'no-config'"),
        ("a.toml", "hz = 0", "a.toml: hz: 0 is not a whole number from 1 to 1000000000"),
        ("a.toml", "hz = true", "a.toml: hz: True is not"),
        ("a.json", '{"hz": "5"}', "a.json: hz: '5' is not"),
        ("a.yaml", "hz: ~", "a.yaml: hz: None is not"),
        ("a.toml", "mode = 'fast'", "unknown mode 'fast': there are sample, trace, hybrid, none"),
        ("a.toml", "format = ['pdf']", "unknown format 'pdf'"),
        ("a.toml", "quiet = 1", "a.toml: quiet: 1 is neither true nor false"),
        ("a.toml", "include = [1]", "a.toml: include: [1] is neither a text nor a list of texts"),
        ("a.toml", "events = 5", "a.toml: events: 5 is not a text"),
        ("a.toml", "events = '5'", "'5' is not a time"),
        ("a.toml", "ring-bytes = 3", "ring-bytes must be a power of two"),
        ("a.toml", "hz = ", "a.toml is not valid TOML: Invalid value (at end of document)"),
        ("a.toml", b"\xff", "a.toml is not valid TOML"),
        ("a.json", "{", "a.json is not valid JSON: "),
        ("a.json", "[" * 100_000, "a.json is not valid JSON: too deep"),
        ("a.json", "[]", "a.json is not a table of options"),
        ("a.yml", "a: b: c", "a.yml is not valid YML: mapping values are not allowed"),
        ("a.ini", "", "a.ini: its name must end in .toml, .json, .yaml or .yml"),
        ("pyproject.toml", "[tool]\npyhybrid = 3", "tool.pyhybrid is not a table of options"),
    ],
)  # fmt: skip
def test_what_is_none(folder: Path, name: str, text: str | bytes, said: str) -> None:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=re.escape(said)) as error:
        configured(name)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"cannot read a\.toml: No such file"):
        configured("a.toml")
    monkeypatch.setenv(config_file.VARIABLE, "b.toml")
    with pytest.raises(UsageError, match=r"cannot read b\.toml: No such file"):
        configured()


def test_without_pyyaml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.yaml").write_text("hz: 5")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match=r"a\.yaml: YAML needs PyYAML"):
        configured("a.yaml")


def test_a_program_has_it_as_a_keyword(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.pyhybrid]\nhz = 5\npaused = true")
    assert with_files({}, ProfilerOptions) == {}  # it names what it wants
    assert with_files({"config": "pyproject.toml", "clock": "wall"}, ProfilerOptions) == {
        "hz": 5,
        "clock": "wall",
        "config": ["pyproject.toml"],
    }
    assert Profiler(config="pyproject.toml")._settings.hz == 5
    assert Profiler(config=["pyproject.toml"], hz=6)._settings.hz == 6
    with pytest.raises(UsageError, match="nowhere"):
        Profiler(config="nowhere.toml")


# --- pyhybrid config ------------------------------------------------------------------------------


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["config", *words])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text("[tool.pyhybrid]\nhz = 5\nmax-depth = 7")
    (folder / "b.yaml").write_text("events: 1500ms\nquiet: true\n")
    assert shown(capsys) == f"{folder}/pyproject.toml\n"
    assert shown(capsys, "--no-config") == "no configuration file\n"
    lines = shown(capsys, "--show", "--config", "b.yaml", "--hz", "8", "--no-kernel").splitlines()
    remarks = {line.split(" = ")[0]: line.split("  # ")[1] for line in lines if " = " in line}
    assert lines[:2] == [f"# {folder}/pyproject.toml", "# b.yaml"]
    assert remarks["hz"] == remarks["kernel"] == "command line"
    assert remarks["max-depth"] == f"{folder}/pyproject.toml"
    assert remarks["events"] == remarks["quiet"] == "b.yaml"
    assert remarks["mode"] == "default"
    assert [line for line in lines if line.startswith("# output =")]
    keys = tomllib.loads("\n".join(lines))
    assert (keys["hz"], keys["events"], keys["quiet"]) == (8, "1.5s", True)


@pytest.mark.exhaustive
@settings(max_examples=50)
@given(keys=FILES)
def test_what_it_shows_is_toml(keys: dict[str, Any]) -> None:
    for key, value in keys.items():
        option = BY_KEY[key]
        of_file = option.kind.from_file(value)
        assert tomllib.loads(_setting(option, of_file)) == {key: option.kind.to_file(of_file)}
