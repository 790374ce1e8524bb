"""Masks secrets and personal data in technical text: what is certain to be one, and nothing else.

Times, versions, paths and names of modules stay as they are: without them nobody can answer.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

# Around a value, only letters of ASCII belong to it: Chinese has no blanks between words.
# What keys of known services begin with, and tokens of Telegram's bots.
_KEY = re.compile(
    r"(?<![\w-])(?:(?:gh[pousr]_|github_pat_|glpat-|xox[abeposr]-|xapp-|sk-|[rs]k_live_|AKIA|ASIA|AIza|ya29\.|eyJ|hf_"
    r"|npm_|pypi-|dop_v1_|SG\.)[\w.+/=-]{10,500}|\d{6,12}:[\w-]{30,60}(?![\w-]))",
    re.ASCII,
)
# The value behind a name that says that it is secret. What stands for no value is none; a plain word is a password, but
# no token, unless it is long: `Unexpected token: string`.
_ASSIGNMENT = re.compile(
    r"((?:(pass(?:word|wd|phrase)|secret)|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|authorization)"
    r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:(?:bearer|basic)[ \t]{1,3})?)"
    r"(?![\[{<$%]|(?:true|false|null|none|yes|no|bearer|basic)\b)(?(2)|(?![a-z]{1,15}[.!?:)]{0,3}(?:[\s\"',;&]|$)))"
    r"([^\s\"',;&，。；、！？）]{3,500})",
    re.IGNORECASE,
)
# The same in Chinese: such a value has no Chinese in it.
_CHINESE_ASSIGNMENT = re.compile(
    r"((?:密码|口令|密钥|令牌)[ \t]{0,3}[:：=是为][ \t]{0,3}[\"']?)"
    r"(?![\[{<$%]|(?:true|false|null|none|yes|no)\b)([^\s\"',;&\u0080-\uffff]{4,500})",
    re.ASCII | re.IGNORECASE,
)
_BEARER = re.compile(r"(\bbearer[ \t]{1,3})([\w.+/=~-]{10,500})", re.ASCII | re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]{1,100}:)(?!\[)([^/\s@]{1,200})(?=@)")
# With the letters of Latin, Greek and Cyrillic. `git@` is how everybody logs in to a host of repositories.
_EMAIL = re.compile(
    r"(?<![\w.+\u00c0-\u052f-])(?!git@)[\w.+\u00c0-\u052f-]{1,64}@(?:[\w\u00c0-\u052f-]{1,63}\.){1,8}[A-Za-z]{2,24}\b",
    re.ASCII,
)
_CARD = re.compile(r"(?<![\w.-])[3-6](?:[ -]?\d){12,18}(?![\w-])", re.ASCII)
_PHONE = re.compile(r"(?:(?<=[\s:(=\"'])|(?<=[^\x00-\x7f]))\+\d[\d ()-]{7,18}\d(?!\w)", re.ASCII)
# A version may have four parts, too.
_IPV4 = re.compile(
    r"(?:\b(?:version|release|firmware|v)|版本|固件)号?[ :：]{0,3}\d{1,3}(?:\.\d{1,3}){3}"
    r"|(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)",
    re.ASCII | re.IGNORECASE,
)
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])", re.ASCII)
_KEY_BEGIN = "-----BEGIN "
_KEY_END = "-----END "
MAX_KEY_LINES = 200
MARK_DIGITS = 5


@dataclass(slots=True)
class Masker:
    """Masks the lines of one text. The same value gets the same mark, which means nothing anywhere else.

    With a secret `key`, marks are made from it, and are the same in each text that is masked with it: `[email 3fa1c]`.
    """

    key: bytes = field(default=b"", repr=False)
    _marks: dict[str, dict[str, str]] = field(default_factory=dict)

    def mask(self, line: str) -> str:
        """Return a line with marks such as `[email 1]` for what is secret or personal."""
        line = _URL_PASSWORD.sub(self._replace_value, line)
        line = _KEY.sub(self._replace("key"), line)
        for pattern in (_BEARER, _ASSIGNMENT, _CHINESE_ASSIGNMENT):
            line = pattern.sub(self._replace_value, line)
        line = _EMAIL.sub(self._replace("email"), line)
        line = _CARD.sub(self._replace("card", _is_card), line)
        line = _PHONE.sub(self._replace("phone", _is_phone), line)
        for pattern in (_IPV4, _IPV6):
            line = pattern.sub(self._replace("address", _is_public_address), line)
        return line

    def _replace(self, kind: str, is_one: Callable[[str], bool] = bool) -> Callable[[re.Match[str]], str]:
        return lambda match: self._get_mark(kind, match[0]) if is_one(match[0]) else match[0]

    def _replace_value(self, match: re.Match[str]) -> str:
        # The value is the last group.
        return f"{match[1]}{self._get_mark('secret', match[match.re.groups])}"

    def _get_mark(self, kind: str, value: str) -> str:
        marks = self._marks.setdefault(kind, {})
        name = (
            hmac.new(self.key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:MARK_DIGITS]
            if self.key
            else ""
        )
        return marks.setdefault(value, f"[{kind} {name or len(marks) + 1}]")


def mask_secrets(text: str, masker: Masker | None = None) -> str:
    r"""Return a text with marks for what is secret or personal; several texts with one masker share their marks.

    >>> mask_secrets("03/22 08:51:06 INFO read_netif: 9.22.22.222 for ann@example.org")
    '03/22 08:51:06 INFO read_netif: [address 1] for [email 1]'
    """
    masker = masker or Masker()
    return "\n".join(masker.mask(line) for line in drop_private_keys(text.split("\n")))


def drop_private_keys(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines; those of a private key are empty, also where its end is missing."""
    left = 0
    for line in lines:
        if _KEY_BEGIN in line and "PRIVATE KEY" in line:
            # On one line, as in JSON, the end follows.
            left = 0 if _KEY_END in line else MAX_KEY_LINES
            yield f"{line.partition(_KEY_BEGIN)[0]}[private key]"
        elif left:
            left = 0 if _KEY_END in line else left - 1
            yield ""
        else:
            yield line


def _is_card(text: str) -> bool:
    digits = [int(character) for character in text if character.isdigit()][::-1]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_phone(text: str) -> bool:
    return 8 <= sum(character.isdigit() for character in text) <= 15


def _is_public_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False
