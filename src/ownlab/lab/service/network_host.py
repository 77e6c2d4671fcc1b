"""`ownlab up --host NAME`: a lab that other computers of a trusted network reach, with TLS only.

A given certificate and key are used; otherwise a self-signed certificate is made for the name with the `openssl` command, which practically every
Linux has: Python's standard library cannot make certificates, and a package for it would be a large dependency for one call. It is made
once per name and kept, so that its fingerprint, which people compare, stays the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import re
import shlex
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ownlab.config.paths import state_folder
from ownlab.errors import InputError, LabError, UsageError
from ownlab.input_files import read_bytes
from ownlab.lab.service.labs import NetworkHost
from ownlab.text import text

__all__ = ["certificate_fingerprint", "prepare_network_host"]

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_DAYS = 825  # the longest that browsers accept
_RENEW_SECONDS = 30 * 86_400  # a certificate that ends sooner is replaced
_OPENSSL_SECONDS = 60
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def prepare_network_host(
    name: str, certificate: str | None, key: str | None, environ: Mapping[str, str] = os.environ
) -> NetworkHost:
    """Check everything before a server is started. UsageError, InputError or LabError if it is not possible."""
    if (certificate is None) != (key is None):
        raise UsageError(text("--certificate and --key belong together: give both or neither."))
    if certificate is None or key is None:
        name, address = _resolve(name)
        return NetworkHost(name, address, *_self_signed(name, environ))
    certificate, key = os.path.realpath(certificate), os.path.realpath(key)
    _check_pair(certificate, key)
    return NetworkHost(*_resolve(name), certificate, key)


def certificate_fingerprint(certificate: str) -> str:
    """Return the SHA-256 fingerprint of the first certificate of a file, as browsers show it: AB:CD:…"""
    found = _PEM.search(read_bytes(certificate))
    if found is None:
        raise InputError(text("{file} contains no certificate in PEM format.", file=certificate))
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0].decode("ascii", "replace"))).hexdigest().upper()
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def _resolve(name: str) -> tuple[str, str]:
    """Return the name in its usual form, and the address of this machine that it stands for."""
    lower = name.strip().strip("[]").lower().rstrip(".")
    with contextlib.suppress(ValueError):
        lower = str(ipaddress.ip_address(lower))
    example = text("For example: ownlab up --host lab.example.org, or --host 192.168.1.20")
    is_address = _is_address(lower)
    if not is_address and not _NAME.fullmatch(lower):
        raise UsageError(text("{name} is not a host name or an address.", name=name), hint=example)
    try:
        found = [info[4][0] for info in socket.getaddrinfo(lower, None, type=socket.SOCK_STREAM)]
    except OSError as exc:
        raise InputError(
            text("The name {name} cannot be resolved: {reason}.", name=name, reason=exc.strerror or exc), hint=example
        ) from exc
    addresses = [ipaddress.ip_address(str(each).partition("%")[0]) for each in found]
    if any(each.is_unspecified for each in addresses):
        raise UsageError(
            text("{name} stands for all addresses: pages need one name by which they reach the lab.", name=name),
            hint=example,
        )
    outside = [str(each) for each in addresses if not each.is_loopback]
    if not outside:
        raise InputError(
            text(
                "{name} is {address} on this machine, which other computers cannot reach.",
                name=name,
                address=addresses[0],
            ),
            hint=text(
                "Name an address of a network interface (ip -brief address). Without --host, the lab is for this machine only."
            ),
        )
    for address in outside:
        if _is_ours(address):
            return lower, address
    if _is_address(name):
        raise InputError(text("{address} is not an address of this machine.", address=name), hint=example)
    raise InputError(
        text("{name} is {address}, which is not an address of this machine.", name=name, address=outside[0]),
        hint=example,
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_ours(address: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True


def _check_pair(certificate: str, key: str) -> None:
    """Check that the files belong together, and that nobody else can read the key."""
    for file in (certificate, key):
        read_bytes(file)
    if os.stat(key).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            text("Other users of this machine can read the key {file}.", file=key),
            hint=text("Run: chmod 600 {file}", file=shlex.quote(key)),
        )

    def refuse() -> str:
        raise InputError(text("The key {file} is encrypted.", file=key), hint=text("Give one without a passphrase."))

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=refuse)
    except ssl.SSLError as exc:
        reason = (exc.reason or str(exc)).replace("_", " ").lower()
        raise InputError(
            text(
                "The certificate {certificate} and the key {key} cannot be used together: {reason}.",
                certificate=certificate,
                key=key,
                reason=reason,
            ),
            hint=text("Both must be PEM files, and the key must be the one of the certificate."),
        ) from exc


def _self_signed(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    folder = state_folder(environ) / "tls"
    stem = folder / hashlib.sha256(name.encode()).hexdigest()[:12]
    certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
    if _is_usable(certificate, key):
        return str(certificate), str(key)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in (certificate, key):
            file.unlink(missing_ok=True)
        # openssl would create it with the umask of this process.
        os.close(os.open(key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as exc:
        raise LabError(text("Cannot write the certificate of the lab: {reason}.", reason=exc)) from exc
    _make_certificate(name, certificate, key)
    _check_pair(str(certificate), str(key))
    return str(certificate), str(key)


def _is_usable(certificate: Path, key: Path) -> bool:
    try:
        _check_pair(str(certificate), str(key))
        found = _PEM.search(certificate.read_bytes())
        assert found is not None  # _check_pair has loaded it
    except (InputError, OSError):
        return False
    checked = subprocess.run(
        ["openssl", "x509", "-noout", "-checkend", str(_RENEW_SECONDS)],
        input=found[0],
        capture_output=True,
        timeout=_OPENSSL_SECONDS,
        check=False,
    )
    return checked.returncode == 0


def _make_certificate(name: str, certificate: Path, key: Path) -> None:
    alternative = f"IP:{name}" if _is_address(name) else f"DNS:{name}"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-sha256", "-days", str(_DAYS), "-subj", f"/O=ownlab/CN={name[:64]}/serialNumber={time.time_ns():x}"]
    command += ["-addext", f"subjectAltName={alternative}", "-addext", "extendedKeyUsage=serverAuth"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    hint = text("Give a certificate of your own: --certificate FILE --key FILE")
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=_OPENSSL_SECONDS, check=False)
    except FileNotFoundError as exc:
        raise LabError(
            text("A self-signed certificate is made with the openssl command, which is not installed."),
            hint=text(
                "Install openssl (sudo apt-get install openssl), or give a certificate: --certificate FILE --key FILE"
            ),
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise LabError(text("openssl did not make a certificate in time."), hint=hint) from exc
    if made.returncode:
        lines = made.stderr.strip().splitlines()
        reason = lines[-1] if lines else made.returncode
        raise LabError(text("openssl could not make a certificate: {reason}.", reason=reason), hint=hint)
