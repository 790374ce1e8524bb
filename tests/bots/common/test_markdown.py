"""The text of a link that names another host than the one that it leads to."""

from __future__ import annotations

import pytest

from bots.telegram.render import render
from core.types import Citation

TARGET = "https://evil.example/x"


@pytest.mark.parametrize(
    "label",
    [
        "bank.com",
        "Sign in at paypal.com",
        "the bank (bank.com)",
        "Login: bank.com/secure",
        "support@bank.com",
        "банк.рф",
        "bank.中国",
        "1.1.1.1",
        "ftp://paypal.com",
    ],
)
def test_the_true_address_is_shown_beside_the_name_of_another_host(label: str) -> None:
    for output in (
        render(f"Go to [{label}]({TARGET}).")[0],
        render("Yes [1].", (Citation(1, "p", "s", label, "p", TARGET),))[-1],
    ):
        assert TARGET in output.replace(f'href="{TARGET}"', "")


@pytest.mark.parametrize(
    "label", ["the guide", "config.py", "evil.example", "see evil.example/y", "Version 1.2.3", "e.g. this"]
)
def test_what_names_no_other_host_stays_a_link(label: str) -> None:
    output = render(f"Go to [{label}]({TARGET}).")[0]
    assert TARGET not in output.replace(f'href="{TARGET}"', "")
