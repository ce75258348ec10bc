"""The evaluator: equal to Python or opaque, never different, and harmless whatever a file says."""

from __future__ import annotations

import ast
import random
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.edit.code import values
from arc_toolkit.edit.code.names import CodeScopes, ScopeReader
from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.edit.code.values import Evaluator, OpaqueValue, call_arguments

HEAD = "import os\nimport pathlib\nfrom os.path import join\nfrom pathlib import Path\n"
FILE = "/repo/jobs/run.py"


def read(text: str, file: str = FILE) -> Any:
    """The value of the last statement of a module, which is an expression."""
    code = CodeScopes([Source(text, parse(text))])
    ScopeReader(code).finish()
    last = code.top.statements[-1]
    assert isinstance(last.stmt, ast.Expr)
    return Evaluator(code, file).value(last.stmt.value, last)


def run(text: str) -> Any:
    """The same by Python."""
    *body, last = ast.parse(text).body
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {"__file__": FILE}
    exec(compile(ast.Module(body, []), "<test>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<test>", "eval"), names)


def same(found: Any, real: Any) -> bool:
    if isinstance(found, PurePath):
        return isinstance(real, PurePath) and str(found) == str(real)
    if isinstance(found, list) and isinstance(real, range):
        return found == list(real)
    if isinstance(found, list | tuple):
        return (
            type(found) is type(real)
            and len(found) == len(real)
            and all(same(*pair) for pair in zip(found, real, strict=True))
        )
    if isinstance(found, dict):
        return (
            isinstance(real, dict)
            and list(found) == list(real)
            and all(same(found[key], real[key]) for key in found)
        )
    return type(found) is type(real) and (found == real or found != found)


# --- what it knows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "'a' + 'b' * 3",
        "-3 + 2 * 5 - 7 // 2",
        "7 / 2",
        "7 % 4",
        "[1, *[2, 3], (4, 5)]",
        "{'a': [1], 'b': None, 3: True}",
        'f\'{1}-{"x"!s}-{2:03d}-{1.5:.2f}|{"a":>5}\'',
        "'%s-%03d-%5.1f%%' % ('a', 7, 1.25)",
        "'%(a)s' % {'a': 1}",
        "'%s' % 'a'",
        "'{}-{}'.format(1, 'b')",
        "'{1}{0}{n:>4}'.format('a', 2, n='x')",
        "'/'.join(['a', 'b'])",
        "list(range(2, 10, 3))",
        "[str(3), int('4'), float('1e3'), tuple([1]), list((2,))]",
        "os.path.join('a', 'b', '/c')",
        "join('a', 'b')",
        "os.path.dirname(__file__) + os.sep + os.pardir",
        "os.path.normpath('a/../b//c')",
        "os.path.basename('a/b.yml')",
        "Path('a') / 'b' / Path('c')",
        "str(Path(__file__).parent / 'train.yml')",
        "Path(__file__).resolve().parents[1].joinpath('x', 'y').as_posix()",
        "pathlib.Path('a', 'b.tar').stem",
        "x = 1\ny = x\n[y, y + 1][1]",
        "d = {'a': {'b': 2}}\nd['a']['b']",
        "x = ['a']\nx.append('b')\nx.extend(['c', 'd'])\nx",
        "d = {'a': 1}\nd['b'] = 2\nd.update({'a': 3})\nd",
        "try:\n    x = 'a'\nexcept ValueError:\n    x = 'a'\nx",
        "class Config:\n    FOLDER = 'a'\nConfig.FOLDER + '/b'",
        "a, b = 'x', 'y'\na + b",
    ],
)
def test_it_computes_what_python_computes(text: str) -> None:
    text = HEAD + text
    assert same(read(text), run(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("input()", "it is input()"),
        ("x", "x is not set here"),
        ("for x in [1]:\n    pass\nx", "x is a loop variable"),
        ("if input():\n    x = 1\nelse:\n    x = 2\nx", "x is chosen at run time"),
        ("x = [1]\nx[0] = 2\nx", "it is changed in line 2"),
        ("x = [1]\nx.insert(0, 2)\nx", "it is changed in line 2"),
        ("x = [1]\nif input():\n    x.append(2)\nx", "changed under a condition in line 3"),
        ("x = [1]\nfor i in range(3):\n    x.append(2)\nx", "in line 3"),
        ("x = [1]\ndef f():\n    x.append(2)\nf()\nx", "x is changed in line 3"),
        ("x = [1]\ny = [x]\nx.append(2)\ny", "x is changed in line 3"),
        ("x = [1]\nx.append(x)\nx", "x is put into itself in line 2"),
        ("x = x\nx", "in a circle"),
        ("str = repr\nstr('a')", "it is str('a')"),
        ("'{0.__class__}'.format(1)", "field '0.__class__'"),
        ("'{!r}'.format('a')", "field ''"),
        ("f'{\"a\"!r}'", "converted"),
        ("f'{[1]}'", "a list"),
        ("'%r' % 'a'", "unusual"),
        ("'%d' % 'a'", "'%d' % 'a'"),
        ("[1][5]", "[1][5]"),
        ("1 / 0", "1 / 0"),
        ("2 ** 3", "not computed"),
        ("{**{}}", "{**{}}"),
        ("os.path.expanduser('~/a')", "home"),
        ("b'a'", "b'a'"),
        ("[x for x in [1]]", "[x for x in [1]]"),
    ],
)
def test_the_reason_why_a_value_is_opaque(text: str, reason: str) -> None:
    with pytest.raises(OpaqueValue) as caught:
        read(text)
    assert reason in caught.value.reason


def test_the_working_directory_is_a_dot() -> None:
    assert read(HEAD + "os.path.join(os.getcwd(), 'a.yml')") == "./a.yml"
    assert read(HEAD + "str(Path.cwd() / 'a.yml')") == "a.yml"
    assert read(HEAD + "os.path.abspath('x/../a.yml')") == "a.yml"


def test_an_argument_of_a_call_is_the_parameter_inside() -> None:
    code = CodeScopes([Source(text := "def f(x):\n    x + '.yml'\nf('a')\n", parse(text))])
    ScopeReader(code).finish()
    inside = next(scope for scope in code.scopes if scope.node is not None)
    statement, outside = inside.statements[0], code.top.statements[-1]
    assert isinstance(statement.stmt, ast.Expr)
    reader = Evaluator(code)
    with pytest.raises(OpaqueValue):
        reader.value(statement.stmt.value, statement)
    arguments = {"x": (ast.Constant("a"), outside)}
    assert (
        reader.with_arguments(inside, arguments).value(statement.stmt.value, statement) == "a.yml"
    )
    lenient = reader.with_placeholder("?")
    assert lenient.value(statement.stmt.value, statement) == "?.yml"


def test_the_arguments_of_a_call_have_names() -> None:
    code = CodeScopes([Source(text := "Step('a', inputs=x, **more)\n", parse(text))])
    ScopeReader(code).finish()
    statement = code.top.statements[0]
    assert isinstance(statement.stmt, ast.Expr)
    call = statement.stmt.value
    assert isinstance(call, ast.Call)
    arguments = call_arguments(call, ("name", "script"), statement)
    assert {name: ast.unparse(node) for name, (node, _) in arguments.values.items()} == {
        "name": "'a'",
        "inputs": "x",
    }
    assert arguments.rest == "**more"


# --- hostile files -------------------------------------------------------------------------------------------------

HOSTILE = [
    "'%1500000000s.yml' % 'a'",
    "'%*d' % (999999999, 1)",
    "'%.999999999f' % 1.5",
    "'a' * 3000000000",
    "3000000000 * 'a'",
    "[0] * 10**9",
    "(0,) * 1000000000",
    "'{:>999999999}'.format(1)",
    "'{:{}}'.format(1, 999999999)",
    "'{:.999999999f}'.format(1.5)",
    "x = 1\nf'{x:999999999}'",
    "x = 999999999\nf'{1:{x}}'",
    "10**10**10",
    "1 << 10**10",
    "range(10**12)",
    "list(range(10**9))",
    "','.join(['a' * 90000] * 9000)",
    "('a' * 90000).join(['b'] * 9000)",
    "x = 'a' * 90000\n'%s%s%s' % (x, x, x)",
    "x = 'a' * 90000\n'{0}{0}{0}'.format(x)",
    "x = 'a' * 90000\nf'{x}{x}{x}'",
    "x = 'a' * 90000\nx + x",
    "import os\nx = 'a' * 90000\nos.path.join(" + ", ".join(["x"] * 9000) + ")",
    "from pathlib import Path\nx = 'a' * 90000\nPath(" + ", ".join(["x"] * 9000) + ")",
    "from pathlib import Path\nx = Path('a' * 90000)\nx" + " / x" * 30,
    "x = [0] * 9000\ny = [x] * 9000\ny",
    "x = [0] * 9000\n[" + "*x, " * 5 + "]",
    "[" + "'a' * 90000, " * 2000 + "]",
    "0x" + "f" * 100000,
    "x = 'b'\n" + "x = x + x\n" * 30 + "x",
    "x0 = 'b'\n" + "".join(f"x{i + 1} = x{i} + x{i}\n" for i in range(30)) + "x30",
    "x0 = 0\n" + "".join(f"x{i + 1} = [x{i}, x{i}]\n" for i in range(30)) + "x30",
    "x0 = 'b'\n" + "".join(f"x{i + 1} = x{i}\n" for i in range(3000)) + "x3000",
    "'a'" + " + 'a'" * 700,
    "-" * 150 + "1",
    "[" * 150 + "]" * 150,
    "x = []\n" + "x.append('a' * 90000)\n" * 500 + "x",
    "x = ['a']\n" + "x.extend(x)\n" * 30 + "x",
    "x = {}\n" + "x.update({'a': x})\n" * 30 + "x",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:30])
def test_a_hostile_expression_is_opaque(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    effort = values.Effort()
    monkeypatch.setattr(values, "Effort", lambda: effort)
    with pytest.raises(OpaqueValue):
        read(text)
    assert effort.made <= values.MAX_MADE + values.MAX_WEIGHT + values.MAX_ITEMS
    assert 0 < effort.steps <= values.MAX_STEPS + 1


def test_many_large_values_are_too_much_for_one_module() -> None:
    text = "".join(f"x{i} = 'a' * 90000\n" for i in range(200)) + "x0\n"
    code = CodeScopes([Source(text, parse(text))])
    ScopeReader(code).finish()
    reader = Evaluator(code)
    found = []
    for statement in code.top.statements[:-1]:
        assert isinstance(statement.stmt, ast.Assign)
        try:
            found.append(reader.value(statement.stmt.value, statement))
        except OpaqueValue:
            break
    assert 100 < len(found) < 200


# --- against Python ------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "b.yml", "../c", "/d", "%s", "{}", "{0}", "{n}", "%d%%", "é", "a/b"]
LEAVES = ["1.5", "None", "True", "__file__", "os.sep", "os.curdir", "Path('p/q.yml')"]
NAMES = ["one", "two", "three", "Config.NAME"]
SPECS = ["", ":>4", ":03d", ":.2f", "!s", "!r", ":s", ":x", ":<2", ":,"]
FUNCTIONS = ["str", "int", "float", "list", "tuple", "range", "os.path.join", "join", "Path"]
FUNCTIONS += ["os.path.dirname", "os.path.basename", "os.path.normpath", "os.fspath"]
ATTRIBUTES = ["parent", "name", "stem", "suffix", "parents[0]", "as_posix()", "joinpath('x')"]


def expression(rng: random.Random, depth: int = 3) -> str:
    """Any expression of the kinds that the evaluator knows, and a few more; most of them are wrong in some way."""
    if depth == 0 or rng.random() < 0.2:
        leaves = [repr(rng.choice(TEXTS)), repr(rng.randint(-3, 12)), rng.choice(LEAVES)]
        return rng.choice([*leaves, rng.choice(NAMES)])

    def one() -> str:
        return expression(rng, depth - 1)

    several = ", ".join(one() for _ in range(rng.randint(0, 3)))
    text = repr(rng.choice(TEXTS))
    shapes = [
        lambda: f"({one()} {rng.choice(['+', '-', '*', '/', '//', '%'])} {one()})",
        lambda: f"[{several}]",
        lambda: f"({several},)" if several else "()",
        lambda: f"{{{one()}: {one()}, 'k': {one()}}}",
        lambda: f"[*{one()}, {one()}]",
        lambda: f"({one()})[{one()}]",
        lambda: f"f'-{{{rng.choice(NAMES)}{rng.choice(SPECS)}}}-'",
        lambda: f"{text}.format({several})",
        lambda: f"{text}.format({one()}, n={one()})",
        lambda: f"({text} * 2) % ({several},)" if several else text,
        lambda: f"{text} % {one()}",
        lambda: f"({one()}).join([{several}])",
        lambda: f"{rng.choice(FUNCTIONS)}({several})",
        lambda: f"{rng.choice(FUNCTIONS)}({one()})",
        lambda: f"({one()}).{rng.choice(ATTRIBUTES)}",
        lambda: f"-({one()})",
    ]
    return rng.choice(shapes)()


def module(rng: random.Random) -> str:
    changes = ["three.append({})", "three.extend([{}])", "two['x'] = {}", "two.update({{'y': {}}})"]
    changes += ["two = {{'three': three}}\nthree.append({})"]
    changes += ["three[0] = {}", "if one:\n    three.append({})", "three += [{}]", "two = {}"]
    lines = [
        f"class Config:\n    NAME = {rng.choice(TEXTS)!r}",
        "one, two, three = 1, {}, ['z']",
        f"one = {expression(rng, 2)}",
        f"two = {{'k': {expression(rng, 1)}}}",
        "three = [one, 'b']",
        *(rng.choice(changes).format(expression(rng, 1)) for _ in range(rng.randint(0, 2))),
        expression(rng),
    ]
    return HEAD + "\n".join(lines) + "\n"


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_it_is_equal_to_python_or_opaque(seed: int) -> None:
    text = module(random.Random(seed))
    try:
        found = read(text)
    except OpaqueValue:
        return
    try:
        real = run(text)
    except Exception:  # a statement before it fails, or the value itself would
        before = ast.parse(text).body[:-1]
        with pytest.raises(Exception, match=r".*"):
            run(ast.unparse(ast.Module([*before, ast.Expr(ast.Constant(1))], [])))
        return
    assert same(found, real), text


def test_a_good_part_of_what_is_fuzzed_is_computed() -> None:
    """The fuzz would prove little if nearly all were opaque."""
    computed = 0
    for seed in range(300):
        try:
            read(module(random.Random(seed)))
            computed += 1
        except OpaqueValue:
            pass
    assert computed > 80
