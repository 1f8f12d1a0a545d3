"""Templates mean what they mean to Jinja, and every character knows where it came from."""

from __future__ import annotations

import pytest
from jinja2 import Environment, StrictUndefined

import feinsum_fuse as ff
from feinsum_fuse.formats.templates.placed_text import PlacedText
from feinsum_fuse.formats.templates.rendering import Renderer
from feinsum_fuse.formats.templates.sandbox import BASE_HELPERS, RenderingBudget

VARIABLES = {"n": 3, "name": "T", "sizes": [4, 5, 6], "table": {"a": 1, "b": [2, 3]}, "text": "some text", "x": 0.5, "yes": True}

TEMPLATES = [
    "plain text, no tags\n",
    "{{ n }} {{ name }} {{ x }} {{ yes }} {{ none }}\n",
    "{# a comment #}a{{ n }}b\n",
    "{% for i in range(n) %}T{{ i }}{{ i + 1 }}, {% endfor %}",
    "a\n  {% for s in sizes %}\n  - {{ loop.index }}/{{ loop.length }}: {{ s }}{% if not loop.last %},{% endif %}\n  {% endfor %}\nb\n",
    "{% for i in range(0) %}x{% else %}nothing{% endfor %}",
    "{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for i in range(6) if i is odd %}{{ i }}{% endfor %}",
    "{% set m = n * 2 %}{{ m }}{% set a, b = 1, 2 %}{{ a - b }}",
    "{% set n = n | default(7) %}{{ n }}{% set q = q | default(7) %}{{ q }}",
    "{% if n > 2 and name == 'T' %}big{% elif n %}some{% else %}none{% endif %}",
    "{% if missing is defined %}a{% else %}b{% endif %}",
    "{% for i in range(2) %}{% set n = i %}{{ n }}{% endfor %}{{ n }}",
    "{% set ns = namespace(total=0) %}{% for s in sizes %}{% set ns.total = ns.total + s %}{% endfor %}{{ ns.total }}",
    (
        "{% macro access(t, ranks, out=False) %}{{ t }}[{{ ranks | join(', ') }}]{% if out %}!{% endif %}{% endmacro %}"
        "{{ access('A', ['m', 'k']) }}{{ access('Z', ['m'], out=True) }}"
    ),
    "{% with z = n + 1 %}{{ z }}{% endwith %}",
    "{% set block %}in {{ n }} lines{% endset %}{{ block | upper }}",
    "{% filter upper %}loud {{ name }}{% endfilter %}",
    "{{ 7 // 2 }} {{ 7 / 2 }} {{ 7 % 4 }} {{ 2 ** 5 }} {{ -n }} {{ not n }} {{ 'a' ~ n ~ 1.5 }} {{ 'ab' * 2 }} {{ [1] + [2] }}",
    "{{ 1 < n <= 3 }} {{ n in sizes }} {{ 4 in sizes }} {{ 9 not in sizes }} {{ 'a' if n else 'b' }}",
    "{{ sizes[0] }} {{ sizes[-1] }} {{ sizes[1:] }}",
    "{{ table['b'][1] }} {{ table.a }} {{ {'k': 1}['k'] }} {{ (1, 2) }} {{ text[2:4] }} {{ text | title }} {{ text | replace('e', 'E') }}",
    "{{ sizes | sum }} {{ sizes | max }} {{ sizes | first }} {{ sizes | last }} {{ sizes | length }} {{ [3, 1, 2] | sort | join('-') }}",
    "{{ '3' | int + 1 }} {{ 'x' | int }} {{ '2.5' | float }} {{ 2.567 | round(1) }} {{ 2.5 | round | int }} {{ 7.9 | int }} {{ -3 | abs }}",
    "{{ sizes | map('string') | join(',') }} {{ [{'a': 1}, {'a': 2}] | map(attribute='a') | list }} {{ [0, 1] | select | list }}",
    "{{ '%d-%s' % (n, name) }} {{ '%02d' % n }} {{ '%s' | format(n) }}",
    "{{ [1, 1, 2] | unique | list }} {{ 'a b'.split() }} {{ 'Ab'.lower() }}",
    "{{ sizes | reverse | list }} {{ range(5) | batch(2) | list }} {{ 'a\nb' | indent(2) }} {{ ' x ' | trim }} {{ table | dictsort }}",
    "{%- for i in range(2) -%} {{ i }} {%- endfor -%} end",
    "x {%- if yes %} y {%- endif %} z",
    "{% raw %}{{ not a tag }}{% endraw %}{{ n }}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{{ n is number }} {{ name is string }} {{ n is divisibleby 3 }} {{ n is even }} {{ none is none }} {{ sizes is iterable }}",
    "{% set l = [] %}{% do l.append(1) %}{% do l.append(2) %}{{ l }}",
    "{{ '{{' }}a{{ '}}' }}\r\nb\rc\n",
    "line one\n{{ n }}\n\n",
    (
        "{% set NAMES = 'ABCDEFGHIJKL' %}\n{%- macro tensor(i) -%}\n  {% if i == 0 %}\n    {{- NAMES[8] -}}\n  {% else %}\n"
        "    {{- NAMES[i-1] -}}\n  {% endif %}\n{%- endmacro -%}\n{% for i in range(3) %}\n"
        "  - {name: {{tensor(i)}}, projection: [m, n{{tensor(i)}}], w: W{{tensor(i+1)}}}\n{% endfor %}\n"
    ),
    "{{ [n, 2] | min }} {{ [n, 8] | max - n }} {{ (n / 2) | round(method='ceil') | int }} {{ n % 2 if n % 2 != 0 else 4 }}",
    "{{ 'x' if n in [1, 2, 3] else 'y' }}",
    "{{ 'ab' | center(6) }}| {{ sizes | slice(2) | list }} {{ text | wordcount }} {{ {'a': '<b>'} | tojson }} {{ 1e999 }} {{ -1e999 }}",
    "{% for s in sizes %}{{ loop.cycle('a', 'b') }}{{ loop.previtem if loop.previtem is defined else '-' }}{% endfor %}",
    "{% macro rest(a) %}{{ a }}{{ varargs | join }}{{ kwargs | dictsort }}{% endmacro %}{{ rest(1, 2, 3, b=4) }}",
    "{% block named %}{{ n }}{% endblock %}{% filter upper | replace('A', 'o') %}a{{ n }}{% endfilter %}",
]


def rendered(text: str, **variables: object) -> PlacedText:
    return Renderer("file.yaml", text, BASE_HELPERS, RenderingBudget()).render(variables or VARIABLES)


@pytest.mark.parametrize("template", TEMPLATES)
def test_renders_as_jinja_does(template: str) -> None:
    jinja = Environment(undefined=StrictUndefined, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
    expected = jinja.from_string(template).render(VARIABLES) if "{" in template else template
    assert rendered(template).text == expected


def test_places_survive_loops_and_expressions() -> None:
    text = "a: 1\n{% for i in range(2) %}\nb{{ i }}: {{ n }} # {{ i }}\n{% endfor %}\nc: 3\n"
    source = rendered(text)

    def place(piece: str) -> tuple[int | None, int | None]:
        location = source.location(source.text.index(piece))
        return location.line, location.column

    assert place("a: 1") == (1, 1)
    assert place("b0") == (3, 1)
    assert place("b1") == (3, 1)
    assert place(": 3 # 1") == (3, 9)
    assert place("3 # 1") == (3, 11)
    assert place("c: 3") == (5, 1)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a\n  b: {{ missing + 1 }}\n", "file.yaml:2:9: The template variable 'missing' is not defined."),
        ("{% if missing %}{% endif %}", "file.yaml:1:7: The template variable 'missing' is not defined."),
        ("{{ missing.a.b }}", "file.yaml:1:4: The template variable 'missing' is not defined."),
        ("x\n{% fro i in n %}", "file.yaml:2:1: The template cannot be read: Encountered unknown tag 'fro'."),
        ("{% assert n == 4, 'n is ' ~ n %}", "file.yaml:1:1: n is 3"),
        ("\n{% assert n == 4 %}", "file.yaml:2:1: Assertion failed on line 2."),
        ("{{ 1 / 0 }}", "file.yaml:1:1: The template cannot be evaluated: division by zero."),
        ("{{ n | uper }}", "file.yaml:1:8: The template filter 'uper' is not available.\n  Did you mean upper?"),
        ("{% extends 'x' %}", "file.yaml:1:4: The template statement 'extends' is not available."),
        ("{{ range }}", "file.yaml:1:1: A function or macro cannot be printed; call it."),
        ("{% if not n %}\n{% elif missing %}{% endif %}", "file.yaml:2:9: The template variable 'missing' is not defined."),
        ("{% macro f(a) %}\n  {{ a + 1 }}{% endmacro %}\n\n{{ f('b') }}", "file.yaml:2:3: The template cannot be evaluated: "),
        ("{% set x %}\n\n{{ missing }}{% endset %}{{ x }}", "file.yaml:3:4: The template variable 'missing' is not defined."),
        ("{% for i in [1] %}{{ dict(_loop_vars=1) }}{% endfor %}", "file.yaml:1:1: The template cannot be read: keyword argument"),
        ("{{ [] | max }}", "file.yaml:1:1: The template cannot be evaluated: No aggregated item, sequence was empty."),
        ("{{ n() }}", "file.yaml:1:1: Only macros, helpers and methods of text, lists and mappings can be called in a template."),
    ],
)
def test_errors_name_the_place(template: str, message: str) -> None:
    with pytest.raises(ff.SpecError) as caught:
        rendered(template)
    assert str(caught.value).startswith(message)


def test_assertions_that_hold_leave_nothing() -> None:
    assert rendered("{% assert n == 3 %}x").text == "x"
