"""Facts come out of YARN's words, whatever stands around them and however much of them is left."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tarn_plugins.runtime.yarn.probe.messages import parse

names = st.text("abz_09", max_size=6).map("x".__add__)
values = st.text('aZ09=/"$`\\é模.:-', max_size=20)
told = st.dictionaries(names, values, max_size=6)
noise = st.text("[]: =\t\rxé", max_size=20)


def lines(facts):
    return [f"tarn-probe {name}={value}" for name, value in facts.items()]


@settings(deadline=None)
@given(told, st.lists(noise, max_size=3))
def test_all_of_them_are_found_between_other_text(facts, around):
    """YARN's own lines before, between and after them do not matter."""
    text = []
    for at, line in enumerate(lines(facts)):
        text += [around[at % len(around)].replace("\n", " ") if around else "", line]
    assert parse("\n".join([*around, *text, *around])).values == facts


@settings(deadline=None)
@given(told, st.integers(0, 4096))
def test_a_lost_beginning_costs_only_what_is_lost(facts, cut):
    """Every fact that is found is one that was said, whole."""
    text = "\n".join(lines({"begin": "1", **facts, "end": "1"}))
    found = parse(text[min(cut, len(text)) :])
    said = {"begin": "1", **facts, "end": "1"}
    assert all(said[name] == value for name, value in found.values.items())
    assert cut == 0 or not found.whole or found.values == said


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_it(text):
    """Nor any value: every question to it has an answer."""
    facts = parse(f"tarn-probe x={text}\n{text}")
    facts.number("x"), facts.room("x"), facts.version("x"), facts.yes("x")
    assert facts.get("x").isprintable()


def test_a_text_that_is_repeated_is_read_once():
    """The LinuxContainerExecutor's words hold the file twice, and the last one is whole."""
    text = "Shell output: tarn-probe a=old\nLast 4096 bytes:\ntarn-probe a=new\ntarn-probe end=1"
    facts = parse(text)
    assert (facts.get("a"), facts.whole) == ("new", False)


def test_values_are_read_by_their_kind():
    """And are None, or empty, where they are something else."""
    facts = parse(
        'tarn-probe shm=65536 1024\ntarn-probe java=openjdk version "17.0.9" 2023\n'
        "tarn-probe yes=yes\ntarn-probe n=12\ntarn-probe bad=x 1"
    )
    assert facts.room("shm") == (64, 1)
    assert facts.version("java") == (17, 0, 9)
    assert (facts.yes("yes"), facts.yes("n"), facts.number("n")) == (True, None, 12)
    assert (facts.room("bad"), facts.number("bad"), facts.version("yes")) == (None, None, ())
