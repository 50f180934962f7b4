"""Kernel modules as files: real ELF that kmod reads (modinfo, depmod, modprobe), without code.

A module carries its `.modinfo`, the symbols it exports and needs (from which depmod derives
modules.dep) and, when signed, the kernel's trailer (include/linux/module_signature.h).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import NamedTuple

MAGIC = b"~Module signature appended~\n"
_PKCS7 = 2
_TRAILER = struct.Struct(">BBBBB3xI")
_COMMON_NAME = bytes.fromhex("0603550403")  # DER: object identifier 2.5.4.3


class Module(NamedTuple):
    """What one module says of itself. ``needs`` and ``exports`` are names of symbols."""

    name: str
    info: tuple[tuple[str, str], ...]
    exports: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def srcversion(*parts: str) -> str:
    """24 hex digits, as modpost makes them, that change with what they stand for."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24].upper()


def vermagic(release: str) -> str:
    """The kernel that a module was built for, with the options of a distribution's kernel."""
    return f"{release} SMP preempt mod_unload modversions "


def _symbols(module: Module) -> tuple[bytes, bytes]:
    """The symbol table and its strings: `__crc_X` for what is exported, undefined X for needs."""
    strings, table = bytearray(b"\0"), bytearray(24)
    for name, section, value in [
        *((f"__crc_{name}", 0xFFF1, zlib.crc32(name.encode())) for name in module.exports),
        *((name, 0, 0) for name in module.needs),
    ]:
        table += struct.pack("<IBBHQQ", len(strings), 0x10, 0, section, value, 0)
        strings += name.encode() + b"\0"
    return bytes(table), bytes(strings)


def build(module: Module) -> bytes:
    """The relocatable ELF64 file of x86_64."""
    info = b"".join(f"{key}={value}".encode() + b"\0" for key, value in module.info)
    symtab, strtab = _symbols(module)
    exported = b"".join(name.encode() + b"\0" for name in module.exports)
    # name, type, flags, data, link, info, alignment, entry size
    sections: list[tuple[str, int, int, bytes, int, int, int, int]] = [
        ("", 0, 0, b"", 0, 0, 0, 0),
        (".modinfo", 1, 2, info, 0, 0, 1, 0),
        ("__ksymtab_strings", 1, 2, exported, 0, 0, 1, 0),
        (".symtab", 2, 0, symtab, 4, 1, 8, 24),
        (".strtab", 3, 0, strtab, 0, 0, 1, 0),
    ]
    names = b"\0".join(section[0].encode() for section in sections) + b"\0.shstrtab\0"
    sections.append((".shstrtab", 3, 0, names, 0, 0, 1, 0))
    body, headers, at = bytearray(), bytearray(), 64
    for name, kind, flags, data, link, extra, align, entry in sections:
        pad = -(at + len(body)) % 8
        body += bytes(pad)
        where = at + len(body) if kind else 0
        offset = names.index(name.encode() + b"\0") if name else 0
        headers += struct.pack(
            "<IIQQQQIIQQ", offset, kind, flags, 0, where, len(data), link, extra, align, entry
        )
        body += data
    body += bytes(-len(body) % 8)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack(
        "<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, at + len(body), 0, 64, 0, 0, 64, len(sections), 5
    )
    return ident + head + bytes(body) + bytes(headers)


def sign(data: bytes, pkcs7: bytes) -> bytes:
    """``data`` with a PKCS#7 signature behind it; an older signature is replaced."""
    trailer = _TRAILER.pack(0, 0, _PKCS7, 0, 0, len(pkcs7))
    return unsigned(data) + pkcs7 + trailer + MAGIC


def _signature_bytes(data: bytes) -> int | None:
    """Bytes from the start of the signature to the end of the file, None for an unsigned file."""
    if not data.endswith(MAGIC):
        return None
    end = len(data) - len(MAGIC)
    fields = _TRAILER.unpack_from(data, end - _TRAILER.size)
    length = _TRAILER.size + len(MAGIC) + int(fields[5])
    if fields[2] != _PKCS7 or length > len(data):
        raise ValueError("not a PKCS#7 module signature")
    return length


def unsigned(data: bytes) -> bytes:
    """The module without its signature."""
    length = _signature_bytes(data)
    return data if length is None else data[:-length]


class Signature(NamedTuple):
    """Whose key it was: common name of the certificate's issuer and its serial number, raw."""

    signer: str
    serial: bytes


def signature(data: bytes) -> Signature | None:
    """What `modinfo -F signer` and `-F sig_key` print of it; None for an unsigned module.

    PKCS#7 names the signer as issuer (here one common name) and serial number.
    """
    length = _signature_bytes(data)
    if length is None:
        return None
    pkcs7 = data[-length:]
    at = pkcs7.rfind(_COMMON_NAME)
    if at < 0:
        raise ValueError("a signature without a common name")
    at += len(_COMMON_NAME)
    name = pkcs7[at + 2 : at + 2 + pkcs7[at + 1]]
    at += 2 + len(name)
    if pkcs7[at] != 2:
        raise ValueError("a signature without a serial number")
    return Signature(name.decode("utf-8", "replace"), pkcs7[at + 2 : at + 2 + pkcs7[at + 1]])


def info(data: bytes) -> dict[str, list[str]]:
    """The fields of `.modinfo`; ValueError for what is no such ELF file."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise ValueError("not an ELF64 file")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, number, names_at = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, table + size * n) for n in range(number)]
    names = data[sections[names_at][4] :]
    for name, _, _, _, where, length in sections:
        if names[name:].startswith(b".modinfo\0"):
            found: dict[str, list[str]] = {}
            for field in data[where : where + length].split(b"\0"):
                key, sep, value = field.decode("utf-8", "replace").partition("=")
                if sep:
                    found.setdefault(key, []).append(value)
            return found
    raise ValueError("no section .modinfo")
