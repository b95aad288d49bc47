import json
import re
from html.parser import HTMLParser

from fake_fleet import API_TOKEN, URL, holds, instance, scaling, status

from tarn.cluster.read import card
from tarn.errors import UnreachableError

EVIL = "<script>alert('x')</script>\"&"
EVENT = {"code": "TARN-1106", "severity": "warning", "subject": EVIL, "message": EVIL}
EVENT |= {"first": 1.8e9, "last": 1.8e9, "count": 3}
DECISION = {"at": 1.8e9, "wanted": 4, "desired": 3, "by": EVIL, "reason": EVIL, "held_back": EVIL}

SIGNAL = {"name": EVIL, "value": None, "unit": EVIL, "age_s": None, "source": EVIL}
SIGNAL |= {"reason": EVIL, "read": True}


class Reader(HTMLParser):
    """Reads a card as a browser does: its text, its tags, and that each tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data} "


def test_a_card_tells_state_sizes_instances_and_reasons():
    """What `status` and `why` say, at a glance."""
    shown = status(
        "degraded",
        (instance(1), instance(2, "starting", reason="loads"), instance(3, suspect="silent")),
        ready=1,
        manual=3,
    )
    text = Reader(card.cluster(shown, URL)).text
    for word in ("demo", "degraded", "1 of 3 ready", "set by hand", URL, "127.0.0.1:41001",
                 "demo-0002", "starting", "suspect", "loads", "tarn logs demo-0003"):  # fmt: skip
        assert word in text
    assert "nothing is wrong" not in text


def test_whatever_comes_from_outside_is_escaped():
    """Names, reasons, addresses: a model's error text may hold anything."""
    model = {"name": EVIL, "state": "UNAVAILABLE", "reason": EVIL}
    item = instance(1, "draining", id=EVIL, reason=EVIL, node=EVIL, http=EVIL, grpc=EVIL)
    shown = status(
        EVIL,
        ({**item, "models": [model]}, instance(2, EVIL)),
        name=EVIL,
        runtime=EVIL,
        epoch=EVIL,
        warnings=[EVIL],
        troubles=[{"code": "TARN-1303", "subject": EVIL, "message": f"`{EVIL}`"}],
        holds=holds(
            policy={"use": EVIL, "wanted": 9, "reason": EVIL},
            size={"sentence": EVIL, "held": [{"by": "limits", "reason": EVIL, "left_s": None}]},
        ),
    )
    parts = (
        card.cluster(shown, EVIL),
        card.events([EVENT]),
        card.decisions([DECISION]),
        card.message(EVIL, EVIL, EVIL),
        card.line(EVIL, EVIL),
        card.sizes(scaling(name=EVIL, sentence=EVIL, policy=EVIL, signals=[SIGNAL])),
    )
    for html in parts:
        read = Reader(html)
        assert "script" not in read.tags
        assert EVIL in read.text
        assert all(name == "style" and EVIL not in (value or "") for name, value in read.attributes)


def test_a_card_needs_nothing_from_outside():
    """No widget, no asset, no style that reaches beyond it; one link, to the own dashboard."""
    html = card.cluster(status(), URL) + card.events([EVENT])
    read = Reader(html)
    assert set(read.tags) <= {
        *("a", "div", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"),
    }
    assert [value for name, value in read.attributes if name == "href"] == [f"{URL}/dashboard"]
    assert not re.search(r"src=|url\(|@import|position:", html)
    assert "href=" not in card.cluster(status(), "javascript:alert(1)//") + card.cluster(status())


def test_a_thousand_instances_do_not_fill_the_notebook():
    """The last fifty rows, and how many are not shown."""
    read = Reader(card.instances([instance(n) for n in range(1, 1001)]))
    assert read.tags.count("tr") == 51
    assert "950 earlier ones are not shown" in read.text
    assert card.instances([]) == ""


def test_a_cluster_shows_itself_as_text_and_as_a_card(cluster):
    """`_repr_mimebundle_`: what Jupyter takes."""
    bundle = cluster._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("demo is ready\n2 of 2 ready")
    assert "2 of 2 ready" in Reader(bundle["text/html"]).text
    assert API_TOKEN not in json.dumps(bundle)


def test_a_cluster_that_does_not_answer_shows_that(cluster, fleet):
    """A cell that only names it never raises."""
    fleet.answers = {URL: UnreachableError("nothing listens", where=URL)}
    bundle = cluster._repr_mimebundle_()
    assert "nothing listens" in bundle["text/plain"]
    assert "nothing listens" in Reader(bundle["text/html"]).text
    fleet.vanish()
    assert "does not run" in cluster._repr_mimebundle_()["text/html"]


def test_what_a_cluster_returns_is_plain_data_that_shows_well(cluster, fleet):
    """A dict, tuples and a str, each with a table or card of its own."""
    fleet.events = [EVENT]
    assert cluster.status() == status()
    assert json.loads(json.dumps(cluster.status())) == status()
    assert cluster.instances() == tuple(status()["instances"])
    assert cluster.events() == (EVENT,)
    assert cluster.decisions() == ()
    assert "demo-0001" in cluster.instances()._repr_html_()
    assert "instance silent" in cluster.events()._repr_html_()
    assert cluster.decisions()._repr_html_() == ""
    assert "2 of 2 ready" in cluster.status()._repr_html_()
    assert cluster.why() == "demo: 2 of 2 ready; nothing is wrong"
    assert repr(cluster.why()) == str(cluster.why())
