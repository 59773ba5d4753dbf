"""Hashes that tell one content from another, without OpenSSL, which takes 8 ms to load.

CPython has its own implementations for where OpenSSL is not there (`--with-builtin-hashlib-hashes`
may leave them out; then `hashlib` has them).
"""

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from hashlib import blake2b, sha1, sha256
else:
    try:
        from _blake2 import blake2b
        from _sha1 import sha1
        from _sha2 import sha256
    except ImportError:
        from hashlib import blake2b, sha1, sha256

__all__ = ["blake2b", "sha1", "sha256", "text_hash"]


def text_hash(text: bytes) -> str:
    """Return what tells one text of a source file from another."""
    return sha1(text, usedforsecurity=False).hexdigest()
