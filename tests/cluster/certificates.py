"""Certificates for the tests' own servers: an authority, server and client certificates, expired ones too."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def rsa_key() -> bytes:
    """What the apiserver signs the tokens of service accounts with."""
    return _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))


class Authority:
    """A certificate authority that lives as long as a test session."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "arc-toolkit tests")])
        builder = self._builder(self._name, self._key, days=1)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        start, end = (
            (now - DAY, now + days * DAY) if days > 0 else (now - 3 * DAY, now + days * DAY)
        )
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
        )

    def issue(self, user: str, group: str = "", *, days: int = 1) -> Pair:
        """A certificate for 127.0.0.1 and for a user; with negative days it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        if group:
            names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(x509.Name(names), key, days)
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return Pair(builder.sign(self._key, hashes.SHA256()).public_bytes(PEM), _pem(key))
