"""Keys and certificates of one cluster: two authorities and a certificate per component. Called by `up`.

The second authority signs the front proxy's client certificate only, as aggregated APIs (metrics-server, KEDA) need.
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from enginery_cluster.state import write_private

LIFETIME = dt.timedelta(days=365)
"""A local cluster is younger than this."""


@dataclass(frozen=True)
class Identity:
    """Whom a certificate stands for: RBAC reads the user from the common name, the groups from the organization."""

    file: str
    user: str
    group: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


class Authority:
    """A self-signed certificate authority whose certificates go to one folder."""

    def __init__(self, folder: Path, file: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"enginery-{file}", "")
        builder = _certificate(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.pem = _write(folder, file, self._key, builder.sign(self._key, hashes.SHA256()))

    def issue(self, identity: Identity) -> None:
        """Write <file>.crt and <file>.key, good as server and as client."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in identity.names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in identity.addresses]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _certificate(_name(identity.user, identity.group), self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        _write(self._folder, identity.file, key, builder.sign(self._key, hashes.SHA256()))


def service_account_keys(folder: Path) -> None:
    """The pair that signs and checks service account tokens: sa.key and sa.pub."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(folder / "sa.key", _private_pem(key))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "sa.pub").write_bytes(public)


def _name(user: str, group: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _write(folder: Path, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> str:
    write_private(folder / f"{file}.key", _private_pem(key))
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    (folder / f"{file}.crt").write_text(pem)
    return pem
