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
    address = _parse(peer)
    for hop in reversed(forwarded.split(",")):
        is_proxy = address is not None and any(address in network for network in trusted_proxies)
        next_address = _parse(hop.strip())
        if not is_proxy or next_address is None:
            break
        address = next_address
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address or peer)


def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, or None. One of IPv4 may be written as one of IPv6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped_address = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped_address or address


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
