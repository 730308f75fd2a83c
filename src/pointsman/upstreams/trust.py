"""Certificate authorities that an upstream's certificate is verified against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointsman.errors import ConfigError
from pointsman.upstreams.port import UpstreamSpec

if TYPE_CHECKING:
    import ssl

__all__ = ["trust"]


def trust(spec: UpstreamSpec) -> ssl.SSLContext:
    """Return what an upstream's certificate is checked against: its CA file, else the system's authorities.

    OpenSSL's own variables, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, name the system's.

    Raises:
        ConfigError: the CA file cannot be read, or holds no certificate.
    """
    import ssl  # a command that reads a configuration needs it only for a CA file

    try:
        return ssl.create_default_context(cafile=spec.ca_file)
    except ssl.SSLError:  # a kind of OSError
        why = "holds no certificate in PEM"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise ConfigError(f'upstream "{spec.name}": ca_file {spec.ca_file} {why}')
