"""Who visits, by the address alone, and how often somebody may ask. There are no cookies and no ids."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Addresses that are remembered: who was quiet for longest is forgotten.
MAX_ADDRESSES = 10_000
# One household or server has as many addresses of IPv6 as it likes.
IPV6_PREFIX = 64


def find_visitor(peer: str, forwarded: str, trusted_proxies: Sequence[Network]) -> str:
    """Return the address that a visitor is counted by; of IPv6 its network.

    `forwarded` is what `X-Forwarded-For` says. It is believed as far as trusted proxies wrote it: from the right.

    >>> find_visitor("10.0.0.2", "6.6.6.6, 9.9.9.9", [ipaddress.ip_network("10.0.0.0/8")])
    '9.9.9.9'
    """
    address = peer
    for hop in reversed(forwarded.split(",")):
        if not _is_in(address, trusted_proxies) or not _is_address(hop.strip()):
            break
        address = hop.strip()
    if not _is_address(address):
        return address
    parsed = ipaddress.ip_address(address)
    is_wide = parsed.version == 6
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False)) if is_wide else address


class Buckets:
    """Lets each key do something so many times a minute. `clock` returns seconds."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        # How often each may still, and when that was so.
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def may_take(self, key: Hashable) -> bool:
        """Return whether there is one left."""
        return self._count(key) >= 1

    def take(self, key: Hashable) -> None:
        """Take one."""
        left = self._count(key)
        self._left.pop(key, None)
        self._left[key] = (left - 1, self._clock())
        if len(self._left) > MAX_ADDRESSES:
            self._left.popitem(last=False)

    def _count(self, key: Hashable) -> float:
        now = self._clock()
        left, counted_at = self._left.get(key, (self._per_minute, now))
        return min(self._per_minute, left + (now - counted_at) / 60 * self._per_minute)


class VisitorLimit:
    """How often one address may ask, and all together. Who is refused takes nothing from the others."""

    def __init__(self, per_minute: int, all_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._own = Buckets(per_minute, clock)
        self._common = Buckets(all_per_minute, clock)

    def admits(self, visitor: str) -> bool:
        """Return whether a visitor may ask now, and count it."""
        if not (self._own.may_take(visitor) and self._common.may_take("")):
            return False
        self._own.take(visitor)
        self._common.take("")
        return True


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    return _is_address(address) and any(ipaddress.ip_address(address) in network for network in networks)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
