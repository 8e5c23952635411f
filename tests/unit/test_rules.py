"""A stage decides by its rules: they reach every function that takes some, and no number decides in addition."""

from __future__ import annotations

import ast
import re
from dataclasses import FrozenInstanceError, fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/llmprism"
STAGES = ("ingest", "recognize", "parallelism", "timeline", "diagnose", "logs", "verdict", "service")
FORMATS = {
    "diagnose/slow_place_words.py:MOST_NAMES": "how long a sentence may be",
    "ingest/bucketed_read.py:BUCKETS_SHARE": "memory",
    "ingest/bucketed_read.py:DATABASE_SHARE": "memory",
    "ingest/duplicates.py:LOOK_BACK": "work",
    "ingest/fitness.py:RESOLUTIONS_NS": "unit",
    "ingest/record_order.py:RUN": "work",
    "ingest/record_order.py:SMALL_TABLE": "work",
    "ingest/transfers.py:_BINS": "how finely pauses are counted",
    "ingest/transfers.py:_CHANCE_NS": "the unit of a time that serves as a random number",
    "diagnose/tally.py:ROUNDING": "rounding of sums",
    "logs/blocks.py:_CONTROL": "bytes of text",
    "logs/log_times.py": "units and the calendar",
    "logs/log_events.py:_HEAT_BUCKETS": "columns of a page",
    "logs/flight.py:_PICKLE_PROTOCOLS": "format",
    "logs/incidents.py:_REPORT_REACH": "format of launchers' reports",
    "logs/isolation.py": "the published algorithm",
    "logs/l4.py": "the published method",
    "logs/launcher_reports.py": "codes and formats of launchers",
    "logs/linetext.py": "bytes of text",
    "logs/masking.py": "bytes of text and a hash",
    "logs/members.py:_MIN_LINES_PER_LISTED_RANK": "format",
    "logs/metrics.py:_PATTERNS": "format",
    "logs/prefix.py:_HEADER_TOKENS": "format",
    "logs/ranking.py:RANKED": "how many are listed",
    "logs/reader.py:LINES_PER_SCAN": "work",
    "logs/report_html.py": "pixels",
    "logs/roots.py:_REPORT_TAIL": "format of launchers' reports",
    "logs/scan.py": "bytes of text",
    "logs/series.py": "memory",
    "logs/shape_store.py:_CONTEXT_REACH": "work",
    "logs/shapes.py:_ROLE_ORDER": "an order",
    "logs/sources.py:_TAR_MAGIC_AT": "format",
    "logs/tags.py:_HOST_SHARE": "how a format is recognised",
    "logs/templates.py": "how lines become templates",
    "logs/unpack.py:_TEXT_NUL_SHARE": "how a format is recognised",
    "logs/unpack.py:_UTF16_NUL_SHARE": "how a format is recognised",
    "logs/view.py:MIN_TIMED": "how a format is recognised",
    "logs/wrappers.py:_JSON_SHARE": "how a format is recognised",
    "parallelism/carried_layout.py:_SIZE_BITS": "how a number is packed",
    "parallelism/features.py:_SAMPLES": "how finely a transfer is spread over its time",
    "parallelism/pause_code.py:NOT_JUDGED": "name",
    "parallelism/pause_code.py:OUTSIDE": "name",
    "parallelism/published_layout.py:_SIZE_LIMIT": "how a number is packed",
    "parallelism/schedules.py:FORWARD": "name",
    "parallelism/schedules.py:BACKWARD": "name",
    "parallelism/schedules.py:WEIGHTS": "name",
    "parallelism/step_confidence.py": "fitted weights, and how far they were fitted",
    "recognize/lockstep.py:SMALL_BALL": "a law of random walks",
    "recognize/lockstep.py:Z_95": "a quantile of the normal distribution",
    "timeline/model_size.py": "bytes of number formats",
    "verdict/case.py:SECOND": "unit",
    "verdict/log_clock.py:ZONE_NS": "unit",
    "verdict/nearby.py:_KIND_CHARS": "how a kind of line is named",
    "verdict/quotes.py:MAX_QUOTED": "how many lines are shown",
    "verdict/rank_file.py:MAX_BYTES": "limit on input",
}
"""Numbers at the top of a module (or all of it) that decide nothing about the data by their size."""

BOUNDS = re.compile(r"_?(MAX_|LISTED|FIRST_|SAMPLED_)\w*|LISTED|\w+_(BYTES|CHARS|RECORDS|LINES|WORKERS|MAGIC|SECONDS)")
"""Names of numbers in `ingest` and `logs` that bound work, memory or a page, or belong to a format of files."""


def _trees(stage):
    return {path: ast.parse(path.read_text()) for path in sorted((SOURCE / stage).rglob("*.py"))}


def _module(path):
    return ".".join(("llmprism", *path.relative_to(SOURCE).with_suffix("").parts))


def _takers(trees):
    """Where `rules` stands among the parameters of each function that takes them, by module and name."""
    found = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                if "rules" in names:
                    found[_module(path), node.name] = names.index("rules")
    return found


def forgotten(trees):
    """Calls inside a stage of a function that takes rules, without any."""
    takers = _takers(trees)
    for path, tree in trees.items():
        known = {name: (module, name) for module, name in takers if module == _module(path)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                known |= {
                    a.asname or a.name: (node.module, a.name) for a in node.names if (node.module, a.name) in takers
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
                given = {keyword.arg for keyword in node.keywords}
                starred = any(isinstance(one, ast.Starred) for one in node.args)
                if "rules" not in given and (starred or len(node.args) <= takers[known[node.func.id]]):
                    yield f"{path.name}:{node.lineno} {node.func.id}"


@pytest.mark.parametrize("stage", STAGES)
def test_rules_are_handed_on_to_every_function_that_takes_them(stage):
    trees = _trees(stage)
    assert _takers(trees)
    assert list(forgotten(trees)) == []


def test_a_call_without_rules_is_found():
    text = "def f(a, rules=None): ...\ndef g(rules): f(1); f(1, rules); f(1, rules=rules)\n"
    assert list(forgotten({SOURCE / "x.py": ast.parse(text)})) == ["x.py:2 f"]


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "service"])
def test_no_number_at_the_top_of_a_module_decides_in_addition_to_the_rules(stage):
    found = set()
    for path, tree in _trees(stage).items():
        for node in tree.body:
            target = node.target if isinstance(node, ast.AnnAssign) else None
            target = node.targets[0] if isinstance(node, ast.Assign) else target
            if isinstance(target, ast.Name) and target.id.lstrip("_").isupper() and _holds_number(node.value):
                found.add(f"{path.relative_to(SOURCE)}:{target.id}")
    wire = {one for one in found if one.startswith("ingest/packets/")}  # headers, and the state that kernels keep
    bounds = {one for one in found if stage in ("ingest", "logs") and BOUNDS.fullmatch(one.partition(":")[2])}
    assert {one for one in found - wire - bounds if one.partition(":")[0] not in FORMATS} <= FORMATS.keys()


def _holds_number(node):
    """Is it a number, a formula of numbers or a tuple of them?"""
    if isinstance(node, ast.Call):
        return any(_holds_number(one) for one in node.args)
    constants = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return any(isinstance(value, int | float) and not isinstance(value, bool) for value in constants)


def _rules(stage):
    return import_module(f"llmprism.{stage}.rules").RULES


def _groups(rules):
    yield rules
    for one in fields(rules):
        if is_dataclass(getattr(rules, one.name)):
            yield from _groups(getattr(rules, one.name))


@pytest.mark.parametrize("stage", STAGES)
def test_rules_cannot_be_changed_in_place(stage):
    for group in _groups(_rules(stage)):
        with pytest.raises(FrozenInstanceError):
            setattr(group, fields(group)[0].name, None)


@pytest.mark.parametrize("stage", STAGES)
def test_every_rule_says_what_it_is_and_is_read(stage):
    code = {path: tree for path, tree in _trees(stage).items() if "rules" not in path.with_suffix("").parts}
    read = set(_read_of_rules(code.values(), {one.name for one in fields(_rules(stage))}))
    for group in _groups(_rules(stage)):
        source = Path(import_module(type(group).__module__).__file__).read_text()
        (body,) = [
            n.body for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == type(group).__name__
        ]
        for field, said in zip(body, [*body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign) and not is_dataclass(getattr(group, field.target.id)):
                assert isinstance(said, ast.Expr), f"{field.target.id} says nothing"
                assert field.target.id in read, f"nobody reads {field.target.id}"


def _read_of_rules(trees, groups):
    """Attributes that are read of something that is called rules, or one group of them."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                owner = ast.unparse(node.value).rpartition(".")[2]
                if "rule" in owner.lower() or owner in groups or owner in GROUPS_IN_CODE:
                    yield node.attr


GROUPS_IN_CODE = {"sure", "worth"}
"""Names of variables that hold a group of rules."""


def test_a_rule_that_only_something_else_has_is_not_read():
    tree = ast.parse("x = rules.clock.one + rules.two + job.three + rule.four")
    assert set(_read_of_rules([tree], {"clock"})) >= {"one", "two", "four"}
    assert "three" not in _read_of_rules([tree], {"clock"})


def test_a_rule_that_two_stages_share_is_written_once():
    """Rules of one name and one value are one constant of `model`, which both start from."""
    found = {}
    for stage in STAGES:
        for group in _groups(_rules(stage)):
            for field in fields(group):
                value = getattr(group, field.name)
                if not is_dataclass(value):
                    found.setdefault((field.name, value), []).append(type(group))
    twice = {name: groups for (name, _), groups in found.items() if len(groups) > 1}
    assert twice.keys() >= {"setup_factor"}
    for name, groups in twice.items():
        defaults = {_default(group, name) for group in groups}
        assert len(defaults) == 1, name
        assert defaults.pop().isupper(), f"{name} is written twice"


def _default(group, name):
    """The default of a rule as it is written."""
    tree = ast.parse(Path(import_module(group.__module__).__file__).read_text())
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == group.__name__]
    (value,) = [n.value for n in body if isinstance(n, ast.AnnAssign) and n.target.id == name]
    return ast.unparse(value)


NATURAL = {0.0, 0.5, 1.0, 2.0, 8.0, 100.0, 1e3, 1e6, 1e9, 1e-3, 1e-9, 8e-9, 1e-12, 1e-300, 1.4826}
"""Halves, doubles, units, what keeps a division from failing, and the ratio of spread and median deviation."""

FORMULAS = {
    "diagnose/own_past.py:3.0": "Student's distribution of three degrees",
    "ingest/database.py:0.99": "progress that is not complete",
    "ingest/fitness.py:0.9": "what is reported: the pairs that carry nine tenths",
    "ingest/transfers.py:14.0": "the first bin, 16 microseconds",
    "ingest/transfers.py:5.0": "five bins for a doubling",
    "logs/isolation.py:0.5772156649": "Euler's constant",
    "logs/metrics.py:10.0": "digits",
    "logs/metrics.py:48.0": "digits",
    "parallelism/heavy_end.py:1.5": "a place and its neighbours",
    "parallelism/hybrid.py:1.5": "three collectives of shards against the two halves of one of replicas",
    "parallelism/hybrid.py:1e-06": "keeps a division from failing",
    "parallelism/likely_messages.py:0.05": "where an iteration starts",
    "parallelism/likely_messages.py:0.15": "where an iteration starts",
    "parallelism/likely_messages.py:0.2": "where an iteration starts",
    "parallelism/likely_messages.py:0.9": "keeps shares from becoming one",
    "parallelism/likely_messages.py:0.95": "keeps shares from becoming one",
    "parallelism/likely_messages.py:9.0": "deviations beyond which the normal density is nothing (1e-18)",
    "parallelism/likely_messages.py:0.97": "keeps shares from becoming one",
    "parallelism/optimizer_pause.py:1.5": "a place and its neighbours",
    "parallelism/tensor_peers.py:1.5": "Student's distribution of two degrees",
    "parallelism/tensor_peers.py:3.0": "Student's distribution of three degrees",
    "recognize/lockstep.py:0.25": "likelihood of a variance",
    "recognize/lockstep.py:6.0": "variance of a random walk around its mean",
    "recognize/rhythm.py:0.9": "the ninth decile, as its function is called",
    "verdict/effect.py:0.99": "keeps a division from failing",
}
"""Numbers inside functions that decide nothing by themselves, with what they are."""


def numbers_inside(tree):
    """Fractions that functions hold, but for default arguments and for those that say which quantile is meant."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        quantiles = {
            id(number)
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and "quantile" in ast.unparse(call.func)
            for argument in call.args[1:]
            for number in ast.walk(argument)
        }
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, float) and id(node) not in quantiles:
                    yield node.value


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "service"])
def test_no_number_inside_a_function_decides_in_addition_to_the_rules(stage):
    files = [path for path in sorted((SOURCE / stage).rglob("*.py")) if "rules" not in str(path.relative_to(SOURCE))]
    found = {
        f"{path.relative_to(SOURCE)}:{number}"
        for path in files
        for number in numbers_inside(ast.parse(path.read_text()))
        if number not in NATURAL
    }
    assert found <= FORMULAS.keys()
    assert {one for one in FORMULAS if one.startswith(f"{stage}/")} <= found, "what is excused is there"


def test_a_number_inside_a_function_is_found():
    text = "def f(x, every=10.0):\n    y = np.quantile(x, 0.25)\n    return y if y > 0.37 else 0.5\n"
    assert set(numbers_inside(ast.parse(text))) == {0.37, 0.5}
