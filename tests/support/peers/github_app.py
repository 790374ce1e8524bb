"""A GitHub App on the peer: proofs are checked as GitHub does, and tokens last an hour of its own clock."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

APP_ID = "4711"
SLUG = "kimas"
MAX_PROOF_S = 600
TOKEN_S = 3600
PROOF_PATHS = ("/app", "/installation")


class PeerApp:
    """An app in all repositories but those `not_installed_in`; its clock is `ahead_s` of ours.

    Once `is_used`, it stands in for the account with the token.
    """

    def __init__(self) -> None:
        self.is_used = False
        self.ahead_s = 0.0
        self.not_installed_in: set[str] = set()
        self.granted = 0
        self._ends: dict[str, float] = {}

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(65537, 2048)

    def write_key(self, folder: Path) -> Path:

        form = serialization.PrivateFormat.TraditionalOpenSSL
        path = folder / "app.pem"
        path.write_bytes(self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return path

    def expire(self) -> None:
        """End all tokens."""
        self._ends.clear()

    def find_fault(self, request: web.Request) -> web.Response | None:
        """Refuse a request without a proof or a token, whichever it needs."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if request.path.startswith(PROOF_PATHS[0]) or request.path.endswith(PROOF_PATHS[1]):
            return self._check_proof(token)
        if self._now() < self._ends.get(token, 0.0):
            return None
        return web.json_response({"message": "Bad credentials"}, status=401)

    def _now(self) -> float:
        return time.time() + self.ahead_s

    def _check_proof(self, proof: str) -> web.Response | None:
        options: Any = {"verify_exp": False, "verify_iat": False, "require": ["iat", "exp", "iss"]}
        try:
            claims = jwt.decode(proof, self._key.public_key(), ["RS256"], options=options, issuer=APP_ID)
        except jwt.PyJWTError as error:
            return web.json_response({"message": f"A JSON web token could not be decoded: {error}"}, status=401)
        now = self._now()
        if claims["iat"] > now or claims["exp"] <= now or claims["exp"] > now + MAX_PROOF_S:
            return web.json_response({"message": "'Expiration time' or 'Issued at' claim is wrong"}, status=401)
        return None

    async def describe(self, request: web.Request) -> web.Response:
        return web.json_response({"id": int(APP_ID), "slug": SLUG})

    async def find_installation(self, request: web.Request) -> web.Response:
        if f"{request.match_info['owner']}/{request.match_info['name']}" in self.not_installed_in:
            return web.json_response({"message": "Not Found"}, status=404)
        return web.json_response({"id": 77})

    async def grant(self, request: web.Request) -> web.Response:
        self.granted += 1
        token = f"ghs_{self.granted}"
        self._ends[token] = self._now() + TOKEN_S
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._ends[token]))
        return web.json_response({"token": token, "expires_at": end}, status=201)
