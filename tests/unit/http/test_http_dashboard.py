"""The page at `/dashboard`: one answer that runs its own script and loads nothing."""

import base64
import hashlib
import importlib.resources
import re

import httpx
import pytest
from fake_master import FakeMaster, instance, snapshot

from tarn.http.dashboard import SCRIPTS, assemble, read_page


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_is_open_names_nobody_and_may_run_itself_only() -> None:
    """Whoever asks gets the same page, whose policy lets its own style and script in."""
    with (
        FakeMaster(snapshot(instance(1))) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        answer = web.get("/dashboard")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "llama" not in answer.text
        policies = answer.headers.get_list("Content-Security-Policy")
        style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)
        script = re.search(r'<script type="module">(.*?)</script>', answer.text, re.DOTALL)
        assert style is not None
        assert script is not None
        assert len(policies) == 1
        assert f"script-src {_hashed(script[1])};" in policies[0]
        assert f"style-src {_hashed(style[1])};" in policies[0]
        assert "default-src 'none'" in policies[0]
        for name in ("X-Frame-Options", "X-Content-Type-Options", "Cache-Control"):
            assert len(answer.headers.get_list(name)) == 1, name
        assert web.get("/dashboard/").content == answer.content
        assert web.head("/dashboard").status_code == 200
        assert web.put("/dashboard").status_code == 405
        assert len(web.get("/health").headers.get_list("Content-Security-Policy")) == 1


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    """No address of another host is in it, and no attribute that its own policy would forbid."""
    page = read_page().html.decode()
    hosts = set(re.findall(r"https?://[\w.]+", page))
    assert hosts == {"http://www.w3.org"}  # the name of SVG, which nobody asks
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", page)
    assert not re.search(r"(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval)\b", page)


def test_every_script_of_the_folder_is_in_the_page() -> None:
    """A script that is not named in the table would be missing without a word."""
    folder = importlib.resources.files("tarn.http.dashboard")
    found = {one.name.removesuffix(".js") for one in folder.iterdir() if one.name.endswith(".js")}
    assert found == set(SCRIPTS)
    assert len(SCRIPTS) == len(found)


@pytest.mark.parametrize(
    ("style", "script"), [("</STYLE>", ""), ("", "'</script>'"), ("", "'<!--'")]
)
def test_a_part_that_would_end_its_element_is_refused(style: str, script: str) -> None:
    """What follows would be markup."""
    with pytest.raises(AssertionError):
        assemble("/*STYLE*//*SCRIPT*/", style, script)


@pytest.mark.parametrize(("only", "proof"), [(True, "session"), (False, "any")])
def test_the_page_knows_whether_anything_but_a_session_proves_who_looks(
    only: bool, proof: str
) -> None:
    """Where nothing does, it need not ask to be refused."""
    html = read_page(only_sessions=only).html.decode()
    assert html.count("data-proof=") == html.count(f'<body data-proof="{proof}">') == 1
