import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ProviderMissingError
from tarn.interfaces.lint import Node
from tarn.triton import lint
from tarn.triton.lint.pbtxt import DEEPEST, Broken, read

SCHEMA = lint.load()


def flat(node: Node) -> list[tuple[str, str | None]]:
    return [pair for field in node.fields for pair in ((field.name, field.value), *flat(field))]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", []),
        ("a: 1", [("a", "1")]),
        ("a:1 b:2;c:3,", [("a", "1"), ("b", "2"), ("c", "3")]),
        ('a: "x" \'y\'  "z"', [("a", "xyz")]),
        (r'a: "\"\\\n\x41\101"', [("a", '"\\\nAA')]),
        ("a { b < c: 1 > }", [("a", None), ("b", None), ("c", "1")]),
        ("a: [1, 2]", [("a", "1"), ("a", "2")]),
        ("a [ {b: 1}, {b: 2} ]", [("a", None), ("b", "1"), ("a", None), ("b", "2")]),
        ("a: []", []),
        ("# only { a comment", []),
        ("a: -1.5e-3 # end", [("a", "-1.5e-3")]),
    ],
)
def test_reads_every_form_of_a_field(text: str, fields: list[tuple[str, str | None]]) -> None:
    """Separators, joined and escaped strings, both brackets, lists, comments."""
    assert flat(read(text)) == fields


def test_knows_where_each_field_stands() -> None:
    """Line and column from 1; an element of a list stands where it is written."""
    root = read("a: 1\n  b {\n    c: [ 7,\n 8 ]\n}")
    places = [(n.name, n.line, n.column) for n in (*root.fields, *root.fields[1].fields)]
    assert places == [("a", 1, 1), ("b", 2, 3), ("c", 3, 10), ("c", 4, 2)]


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("a {\n b: 1\n", 1, 3, "never closed"),
        ("a: [1,\n2", 1, 4, "never closed"),
        ("a: 1\n}", 2, 1, "closes nothing"),
        ("a {\n ]", 2, 2, "the '{' of line 1 needs '}'"),
        ("a: [1 2]", 1, 7, "',' or ']'"),
        ("a b: 1", 1, 1, "neither ':' nor '{'"),
        ("a:", 1, 1, "has no value"),
        ("a: }", 1, 4, "has no value"),
        ('a: "x\nb: 1', 1, 4, "does not end on its line"),
        ("%", 1, 1, "the name of a field"),
        ('"a": 1', 1, 1, "the name of a field"),
    ],
)
def test_says_where_the_punctuation_is_wrong(text: str, line: int, column: int, said: str) -> None:
    """The opening that was never closed, not the end of the file."""
    with pytest.raises(Broken) as caught:
        read(text)
    flaw = caught.value.flaw
    assert (flaw.line, flaw.column) == (line, column)
    assert said in flaw.found


def test_a_text_of_a_million_braces_ends() -> None:
    """Protobuf's own parser would overflow the stack on it."""
    with pytest.raises(Broken, match=f"nested more than {DEEPEST} deep"):
        read("a{" * 500_000)


@given(st.text("ab_:{}[]<>,;\"'#\\ \n-1.é", max_size=40))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    """Nothing else happens, whatever was written."""
    flaw = None
    try:
        read(text)
    except Broken as broken:
        flaw = broken.flaw
    assert flaw is None or 1 <= (flaw.line or 0) <= text.count("\n") + 1


words = st.sampled_from(["name", "backend", "platform"])
strings = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.dictionaries(words, strings), st.lists(st.integers(-1, 9), max_size=4))
def test_reads_strings_and_numbers_as_protobuf_does(
    values: dict[str, str], dims: list[int]
) -> None:
    """What protobuf prints is read back to the same values."""
    message = SCHEMA._message(**values)
    message.input.add(name="IN", dims=dims)
    text = SCHEMA._text_format.MessageToString(message, as_utf8=True)
    root, flaws = SCHEMA.parse(text)
    assert flaws == ()
    assert root is not None
    assert {name: root.text(name) for name in values} == values
    (tensor,) = root.all("input")
    assert [dim.whole() for dim in tensor.all("dims")] == dims


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_batchsize: 1", "Did you mean 'max_batch_size'?"),
        ("maxBatchSize: 1", "Did you mean 'max_batch_size'?"),
        ("zzz: 1", "Remove it, or see Triton's model_config.proto."),
        ("input { data_type: FP32 }", "Expected TYPE_FP32."),
        ('input { data_type: "TYPE_FP32" }', "Expected TYPE_FP32."),
        ("instance_group { kind: GPU }", "Expected KIND_GPU."),
        ("max_batch_size: 4.5", "Expected a whole number from -2147483648 to 2147483647."),
        ("max_batch_size: 3000000000", "from -2147483648 to 2147483647."),
        ("name: ocr", 'Expected "ocr", in quotes.'),
        ("input: 4", "Expected input { … }."),
        ("name { }", "Expected name: VALUE."),
        ("model_transaction_policy { decoupled: yes }", "Expected true or false."),
        ("dynamic_batching { priority_levels: -1 }", "from 0 to"),
    ],
)
def test_says_what_would_be_right(text: str, said: str) -> None:
    """An unknown field gets the nearest name; a wrong value its type."""
    root, flaws = SCHEMA.parse(text)
    assert root is None
    assert said in f"{flaws[0].right} {flaws[0].next_step}"


def test_says_in_protobufs_words_what_ours_do_not_cover() -> None:
    """A list where only one value may be: the place is protobuf's."""
    root, flaws = SCHEMA.parse('name: "a"\n[no.such.extension]: 1\n')
    assert root is None
    assert flaws[0].line == 2


def test_without_protobuf_one_line_says_what_to_install() -> None:
    """Exit code 6 and the command; no traceback of an import."""

    def absent(name: str) -> object:
        raise ModuleNotFoundError(name=name.partition(".")[0])

    with pytest.raises(ProviderMissingError) as caught:
        lint.load(absent)
    assert caught.value.exit_code == 6
    assert "tritonclient" in str(caught.value)
    assert "pip install 'tarn-orchestrator[local]'" in str(caught.value)
