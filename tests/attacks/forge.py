"""Tokens, good ones and forged ones, made with the test provider's own private keys: what another service of the same provider,
a careless provider or a stranger could present."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import typing as t
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

KEYS = Path("/var/lib/idp/keys.json")
SITE = Path("/etc/idp/site.json")
LIFE = 300


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=="), "big")


def dump(data: t.Any) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


class Forge:
    def __init__(self) -> None:
        self.site = json.loads(SITE.read_text(encoding="utf-8"))
        self.keys = {key["kid"]: key for key in json.loads(KEYS.read_text(encoding="utf-8"))["all"]}
        self.private = {kid: self.private_key(key) for kid, key in self.keys.items()}
        self.stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.curve = ec.generate_private_key(ec.SECP256R1())

    @staticmethod
    def private_key(key: dict[str, str]) -> rsa.RSAPrivateKey:
        n, e, d, p, q, dp, dq, qi = (number(key[name]) for name in ("n", "e", "d", "p", "q", "dp", "dq", "qi"))
        return rsa.RSAPrivateNumbers(p, q, d, dp, dq, qi, rsa.RSAPublicNumbers(e, n)).private_key()

    def secret(self, client: str) -> str:
        return next(one["client_secret"] for one in self.site["clients"] if one["client_id"] == client)

    def claims(self, audience: str, user: str = "alice") -> dict[str, t.Any]:
        """What the provider itself puts into such a token."""
        person = next(one for one in self.site["users"] if one["name"] == user)
        now = int(time.time())
        return {
            "jti": f"test-{time.monotonic_ns()}",
            "iss": self.site["issuer"],
            "sub": person["sub"],
            "aud": audience,
            "iat": now,
            "exp": now + LIFE,
            "scope": "api:read api:write",
            "client_id": "cli",
            "preferred_username": person["name"],
            "groups": person["groups"],
        }

    def good(self, audience: str, user: str = "alice", **changes: t.Any) -> str:
        return self.token({**self.claims(audience, user), **changes})

    def token(self, claims: t.Any, header: dict[str, t.Any] | None = None, sign: str = "key1", payload: bytes | None = None) -> str:
        """header changes the JOSE header, None in it takes a member away; payload replaces the claims by raw bytes."""
        head: dict[str, t.Any] = {"alg": "RS256", "typ": "at+jwt", "kid": "key2" if sign == "key2" else "key1"}
        if sign == "embedded":
            head["jwk"] = {"kty": "RSA", **self.public_numbers(self.stranger), "kid": "key1", "alg": "RS256"}
        head.update(header or {})
        text = ".".join(encode(part) for part in (dump({k: v for k, v in head.items() if v is not None}), payload or dump(claims)))
        if sign == "unsigned":
            return text + "."
        if sign == "two-parts":
            return text
        return f"{text}.{encode(self.signature(text.encode(), sign))}"

    def signature(self, text: bytes, sign: str) -> bytes:
        if sign in self.private:
            return self.private[sign].sign(text, padding.PKCS1v15(), hashes.SHA256())
        if sign in ("stranger", "embedded"):
            return self.stranger.sign(text, padding.PKCS1v15(), hashes.SHA256())
        if sign == "curve":
            return self.curve.sign(text, ec.ECDSA(hashes.SHA256()))
        if sign == "cut":
            return self.signature(text, "key1")[:-1]
        if sign == "flipped":
            right = self.signature(text, "key1")
            return right[:-1] + bytes([right[-1] ^ 1])
        if sign == "zeros":
            return bytes(256)
        if sign == "of-other-text":
            return self.signature(text + b"x", "key1")
        if sign.startswith("hmac-"):
            return hmac.new(self.shared(sign.removeprefix("hmac-")), text, hashlib.sha256).digest()
        raise ValueError(f"unknown way to sign: {sign}")

    def shared(self, name: str) -> bytes:
        """What a token could be signed with symmetrically by who knows only what is public, or a client's secret."""
        public = self.private["key1"].public_key()
        encoding, kind = serialization.Encoding, serialization.PublicFormat
        return {
            "empty": b"",
            "pem": public.public_bytes(encoding.PEM, kind.SubjectPublicKeyInfo),
            "der": public.public_bytes(encoding.DER, kind.SubjectPublicKeyInfo),
            "modulus": self.keys["key1"]["n"].encode(),
            "client": self.secret("front").encode(),
            "kid": b"key1",
        }[name]

    @staticmethod
    def public_numbers(key: rsa.RSAPrivateKey) -> dict[str, str]:
        numbers = key.public_key().public_numbers()
        return {"n": encode(numbers.n.to_bytes(256, "big")), "e": encode(numbers.e.to_bytes(3, "big"))}
