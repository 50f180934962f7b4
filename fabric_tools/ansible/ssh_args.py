"""``ansible_ssh_common_args`` and its like as options of ssh_config, or refused by name."""

from __future__ import annotations

import shlex

from fabric_tools.errors import UsageError

#: Letters of ssh that say the same as an option.
_LETTERS = {"-J": "proxyjump", "-i": "identityfile", "-p": "port", "-l": "user"}
#: What has one value here whatever the inventory says, or changes nothing of what is read.
_WITHOUT_MEANING = (
    "batchmode", "compression", "connectionattempts", "connecttimeout", "controlmaster",
    "controlpath", "controlpersist", "forwardagent", "forwardx11", "loglevel",
    "serveralivecountmax", "serveraliveinterval", "tcpkeepalive",
)  # fmt: skip
_BARE = ("-C", "-q", "-T", "-x", "-a")
_SAFE = ("yes", "true", "ask", "accept-new")


def ssh_options(text: str, where: str) -> dict[str, str]:
    """The options in arguments of ssh, lower case. The first of two counts, as with ssh.

    Raises ``UsageError`` for what is no option, and for one that switches off host keys: a gate
    that talked to the wrong host proves nothing.
    """
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"ssh arguments: {error}", where=where) from error
    found: dict[str, str] = {}
    for word in words:
        if word in _BARE:
            continue
        letter, rest = word[:2], word[2:]
        value = rest or next(words, "")
        name = _LETTERS.get(letter, "")
        if letter == "-o":
            name, _, value = value.replace("=", " ", 1).strip().partition(" ")
            name, value = name.lower(), value.strip()
        if not name or not value:
            raise UsageError(
                f"ssh argument {word!r} is not understood here", where=where,
                try_next="say it in ~/.ssh/config, or run the playbooks",
            )  # fmt: skip
        if name == "stricthostkeychecking":
            if value.lower() not in _SAFE:
                raise UsageError(
                    f"StrictHostKeyChecking={value}: host keys are always checked", where=where,
                    try_next="add the key to known_hosts and take the option out",
                )  # fmt: skip
        elif name not in _WITHOUT_MEANING:
            found.setdefault(name, value)
    return found
