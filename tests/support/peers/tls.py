"""TLS in front of a plain service, as a proxy does it: a certificate authority of our own, and a forwarder."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the file with a new authority's certificate, and what a server at 127.0.0.1 shows that it has signed."""
    ours = ec.generate_private_key(ec.SECP256R1())
    theirs = ec.generate_private_key(ec.SECP256R1())
    root = _certificate("Test authority", "Test authority", ours, ours, authority=True)
    leaf = _certificate("127.0.0.1", "Test authority", theirs, ours, authority=False)
    trusted = folder / "authority.pem"
    path = folder / "server.pem"
    trusted.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    no_encryption = serialization.NoEncryption()
    key = theirs.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_encryption)
    path.write_bytes(leaf.public_bytes(serialization.Encoding.PEM) + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    # gRPC insists that a server says that it speaks HTTP/2.
    context.set_alpn_protocols(["h2", "http/1.1"])
    return trusted, context


@asynccontextmanager
async def forwarded(context: ssl.SSLContext, port: int) -> AsyncIterator[int]:
    """Forward what comes over TLS to a port of this machine; give the port to come to."""
    open_now: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer))
        except (OSError, ssl.SSLError):
            assert writer.is_closing() or inner_writer.is_closing() or reader.exception(), "only a lost peer ends it"
        finally:
            open_now.discard(task)
            writer.close()
            inner_writer.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(open_now):
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
        await server.wait_closed()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


def _certificate(
    name: str, issuer: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    names = [address, x509.DNSName("localhost")]
    usage = x509.KeyUsage(True, False, False, False, False, authority, authority, False, False)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
