"""Every byte outside of the change stays: encodings, line endings, tabs, form feeds, blanks, the missing newline."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import TYPE, patch_bytes

LINE = b'job = command(command="x")'
DONE = b'job = command(command="x", instance_type="32cpu128g")'
IMPORT = b"from azure.ai.ml import command"


@pytest.mark.parametrize(
    ("before", "note"),
    [
        (IMPORT + b"\n" + LINE, "no final newline"),
        (IMPORT + b"\r\n" + LINE + b"\r\n", "CRLF"),
        (IMPORT + b"\r" + LINE + b"\r", "CR"),
        (IMPORT + b"\r\n\n" + LINE + b"  \t\n\r\n", "mixed, trailing blanks"),
        (b"\xef\xbb\xbf" + IMPORT + b"\n" + LINE + b"\n", "BOM"),
        (b"\xef\xbb\xbf# coding: utf-8\n" + IMPORT + b"\n" + LINE + b"\n", "BOM and cookie"),
        (
            b"# -*- coding: latin-1 -*-\n# \xe9\xff\n"
            + IMPORT
            + b"\nx = '\xe9'; \n"
            + LINE
            + b"  # \xe9\n",
            "latin-1",
        ),
        (
            b"#!/bin/py\n# vim: set fileencoding=cp1252 :\n"
            + IMPORT
            + b"\n"
            + LINE
            + b"  # \x80\n",
            "cp1252",
        ),
        (b"# coding: euc-jp\n# \xc6\xfc\xcb\xdc\n" + IMPORT + b"\n" + LINE + b"\n", "EUC-JP"),
        (IMPORT + b"\n\x0c\n" + LINE + b"\n", "form feed"),
        (IMPORT + b"\n\x0c" + LINE + b"\n", "form feed before the statement"),
        (IMPORT + b"\nif x:\n\t" + LINE + b"\t\n", "tabs"),
        (
            IMPORT + "\nx = '\u2028\x85\x0b'\n".encode() + LINE + b"\n",
            "other line separators in strings",
        ),
        (IMPORT + b"\ny = 1  # \\\n" + LINE + b" \\\n\n", "backslashes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_only_the_argument_is_new(before: bytes, note: str) -> None:
    result = patch_bytes("p.py", before, TYPE)
    assert result.refused is None, note
    assert result.after == before.replace(LINE, DONE)
    assert patch_bytes("p.py", result.after or b"", TYPE).after is None


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", ["    ", "\t", "  \t "])
def test_new_lines_have_the_newline_and_the_indent_of_the_file(newline: str, indent: str) -> None:
    lines = [
        "from azure.ai.ml import dsl, load_component",
        "f = load_component('é.yml')",
        "@dsl.pipeline",
        "def p(é):",
        f"{indent}ñ = f(x='日本', y=é)  # 日本",
    ]
    before = newline.join(lines)
    result = patch_bytes("p.py", before.encode(), TYPE)
    lines.append(f"{indent}ñ.resources = JobResourceConfiguration(instance_type='32cpu128g')")
    lines.insert(1, "from azure.ai.ml.entities import JobResourceConfiguration")
    assert (result.after or b"").decode() == newline.join(lines)


def test_columns_behind_wide_characters_are_right() -> None:
    before = "from azure.ai.ml import command\nx = ['日本語', 'é', '🎉', command(command='🎉', name='é'), 'é']\n"
    result = patch_bytes("p.py", before.encode(), TYPE)
    assert (result.after or b"").decode() == before.replace(
        "name='é'", "name='é', instance_type='32cpu128g'"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"print('hello')\n",
        b"import numpy\n\x00\xff broken \xfe",
        b"import azure.storage.blob\ndef broken(:\n",
        b"# azure.ai.ml\n",
    ],
)
def test_files_without_the_key_words_are_not_parsed(data: bytes) -> None:
    result = patch_bytes("p.py", data, TYPE)
    assert (result.after, result.refused) == (None, None)
    assert result.skipped is not None
    assert result.skipped.reason == "no AzureML code"


def test_what_the_encoding_cannot_write_is_refused() -> None:
    data = b"# coding: ascii\n" + IMPORT + b"\n" + LINE + b"\n"
    result = patch_bytes("p.py", data, Settings(instance_type="gr\u00f6\u00dfe"))
    assert result.after is None
    assert result.refused == "its encoding, ascii, has no '\u00f6\u00df'"


def test_a_file_with_nothing_to_do_stays_byte_for_byte() -> None:
    data = IMPORT + b"\r\n" + DONE + b" \t\x0c\r\n"
    for settings in (Settings(), TYPE):
        result = patch_bytes("p.py", data, settings)
        assert result.before == data
        assert not result.changed
