"""What may not leave in a support bundle: known secrets in any form, and what looks like one."""

import base64
import json
import re
import secrets

import canaries
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.cli.support_bundle.scrub import Scrubber, forms

SECRET = 'kü"pass/%26=<word>+42'
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(
    secret=st.text(st.characters(codec="utf-8"), min_size=12, max_size=40),
    before=TEXTS,
    after=TEXTS,
)
def test_no_form_of_a_known_secret_is_left(secret: str, before: str, after: str) -> None:
    """Whatever stands around it, and however it was encoded."""
    scrubber = Scrubber({secret: "api token"})
    for form in canaries.forms(secret):
        text, _ = scrubber.clean(f"{before}{form.decode()}{after}")
        assert not any(one.decode() in text for one in canaries.forms(secret))
        assert scrubber.told(text) == ()


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=6, max_size=20), max_size=4), TEXTS)
def test_what_is_cleaned_tells_nothing(known: list[str], text: str) -> None:
    """Also where one secret holds another one, or both overlap."""
    scrubber = Scrubber(dict.fromkeys(known, "setting"))
    cleaned, _ = scrubber.clean(f"{text}{''.join(known)}{text}")
    assert scrubber.told(cleaned) == ()


def test_each_is_counted_by_what_it_is() -> None:
    """The mark says which kind stood there; the manifest counts."""
    scrubber = Scrubber({SECRET: "api token", "another-one": "setting"})
    line = json.dumps({"a": SECRET, "b": [SECRET, "another-one"]})
    text, counted = scrubber.clean(line)
    assert text == '{"a": "***api-token***", "b": ["***api-token***", "***setting***"]}'
    assert counted == {"api token": 2, "setting": 1}


def test_a_secret_that_the_edge_of_a_text_cut_is_masked() -> None:
    """A log that was cut by bytes may begin in the middle of one."""
    scrubber = Scrubber({"0123456789abcdefghij": "api token"})
    assert scrubber.clean("3456789abcdefghij said so")[0] == "***api-token*** said so"
    assert scrubber.clean("he said 0123456789abcdef")[0] == "he said ***api-token***"


def test_a_short_secret_takes_no_words_away() -> None:
    """It is masked where its name tells, and the manifest says that it was not searched for."""
    scrubber = Scrubber({"none": "secret"})
    assert scrubber.clean("none of it; password=none")[0] == "none of it; password=***"
    assert scrubber.too_short == 1
    assert forms("none") == ()


UNSAID = [
    "Authorization: Bearer abcdefgh1234",
    "authorization: Negotiate YIIJvwYJKoZIhvcSAQICAQBu",
    "{'x-tarn-token': 'whatever-it-is'}",
    "(b'authorization', b'Basic dXNlcjpwYXNz')",
    "X-TARN-Session: v1.alice.99999.sig",
    "Set-Cookie: hadoop.auth=u=alice&p=alice@R&t=kerberos&e=1&s=abc",
    "GET /metrics?token=s3cretword HTTP/1.1",
    "http://nn1:50070/webhdfs/v1/x?op=OPEN&delegation=JAAFYWxpY2UFYWxpY2U",
    "http://host:8088/dashboard#code=12345678",
    "https://alice:wonder@host/path",
    "rsync alice:wonderland@host.example.com",
    '"aws_secret_access_key": "abcDEF"',
    "AWS_SECRET_ACCESS_KEY=abcDEF",
    "password: hunter2",
    "<name>fs.s3a.secret.key</name><value>abcDEF</value>",
    "hf_abcdefghijklmnopqrstuv",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIabc",
    "--http-restricted-api=logging:tarn-key=0123",
]
SECRET_WORD = re.compile(
    "abcdefgh1234|YIIJ|whatever|dXNl|alice.99999|t=kerberos|s3cretword|JAAF|12345678|wonder|abcDEF"
    "|hunter2|hf_|AKIA|eyJ|MIIabc|0123"
)


@pytest.mark.parametrize("line", UNSAID)
def test_what_looks_like_a_secret_is_masked(line: str) -> None:
    """Headers, queries, cookies, keys of clouds, PEM blocks: nobody told that they are secrets."""
    text, counted = Scrubber({}).clean(f"before\n{line}\nafter")
    assert not SECRET_WORD.search(text)
    assert text.startswith("before")
    assert counted == {} or set(counted) == {"looks like a secret"}


@pytest.mark.parametrize(
    "line",
    [
        "container_e17_1410901177871_0001_01_000005",
        "application_1700000000000_0042 finished",
        "org.apache.hadoop.yarn.client.api.impl.TimelineV2ClientImpl",
        "/root/.cache/tarn/backends/0e943847c2ece4d8/python/libtriton_python.so",
        "nvcr.io/nvidia/tritonserver@sha256:" + "0a" * 32,
        "GPU-0e943847-c2ec-e4d8-0e94-3847c2ece4d8",
        "api.token: auto",
        '"token": "none"',
        '"max_tokens": "512"',
        '"asttokens": "3.0.1"',
        "KeyError: 'demo'",
        "NotAuthorizedError: somebody may not view",
        "tests/observe/test_support_bundle_of_a_real_fleet.py:42",
        'tarn_inference_requests_total{model="llama",status="success"} 42',
    ],
)
def test_what_helps_is_kept(line: str) -> None:
    """Ids, classes, paths, digests and metrics are what a reader of a bundle needs."""
    assert Scrubber({}).clean(line)[0] == line


def test_random_tokens_are_seen_without_being_known() -> None:
    """A token of an earlier cluster, or another's, in the shape that such things have."""
    missed = 0
    for _ in range(200):
        for token in (
            secrets.token_urlsafe(32),
            base64.b64encode(secrets.token_bytes(48)).decode(),
            secrets.token_hex(16),
        ):
            missed += token in Scrubber({}).clean(f"it is {token} here")[0]
    assert missed <= 2
