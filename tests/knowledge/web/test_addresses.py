"""Addresses are compared as what they lead to, and not as texts."""

from __future__ import annotations

import pytest

from knowledge.web.addresses import get_site, normalize_url


@pytest.mark.parametrize(
    "url",
    [
        "http://b\u00fccher.example",
        "HTTP://B\u00dcCHER.example./x",
        "http://xn--bcher-kva.example:80",
        "http://b\u00fccher.example:/",
    ],
)
def test_a_site_has_one_name(url: str) -> None:
    assert get_site(url) == ("xn--bcher-kva.example", None)
    assert get_site("https://b\u00fccher.example:80") == ("xn--bcher-kva.example", 80)


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("https://a.example", "https://A.example:443/"),
        ("https://a.example/b/../c/./d", "https://a.example/c/d"),
        ("https://a.example/caf\u00e9", "https://a.example/caf%c3%a9#menu"),
        ("https://a.example/%7Ea", "https://a.example/~a"),
    ],
)
def test_an_address_has_one_form(url: str, other: str) -> None:
    assert normalize_url(url) == normalize_url(other)


def test_what_leads_elsewhere_is_another_address() -> None:
    pairs = [("a/b", "a/B"), ("a?b=1", "a?b=2"), ("a%2Fb", "a/b"), ("a%3Fb", "a?b"), ("a?b=%26c=1", "a?b=&c=1")]
    for one, other in pairs:
        assert normalize_url(f"https://a.example/{one}") != normalize_url(f"https://a.example/{other}")
