"""What becomes of a collection when the last step, removing the upload, fails."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
from pydantic import SecretStr

from fabric_tools.errors import UnreachableError
from fabric_tools.transport.collect import collect
from fabric_tools.transport.connection import Completed, Limits, Responder

BODY = json.dumps(
    {"schema_version": 1, "kind": "fabric-tools/snapshot", "collector": {"version": "1"}}
).encode()


class Node:
    """sudo wants a password, and the connection is lost when the upload is to be removed."""

    name = "node"

    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.asked: list[str] = []

    def run(
        self, command: str, stdin: bytes, limits: Limits, respond: Responder | None = None
    ) -> Completed:
        self.asked.append(command)
        if "rm -rf" in command and "mkdir" not in command:
            raise UnreachableError("connection lost", where=self.name)
        if "mkdir" in command:
            return Completed(0, b"", b"")
        if respond is None:
            nonce = re.search("[0-9a-f]{32}", command.partition(" fabric ")[2])
            assert nonce
            said = f"FABRIC-NEED {nonce[0]} sudo sudo: a password is required \n"
            return Completed(96, said.encode(), b"")
        prompt = re.search(r"\[fabric ([0-9a-f]{32})\]", command)
        assert prompt
        assert respond(prompt[0].encode()) == b"secret\n"
        if self.refuses:
            return Completed(1, b"", prompt[0].encode() + b"sudo: 1 incorrect password attempt\n")
        digest = hashlib.sha256(BODY).hexdigest()
        head = f"\nFABRIC-COLLECT {prompt[1]} {len(BODY)} {digest}\n"
        return Completed(0, head.encode() + BODY, b"sudo: something not found\n")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("refuses", [False, True])
def test_removing_the_upload_decides_nothing(refuses: bool) -> None:
    node = Node(refuses)
    if refuses:
        with pytest.raises(UnreachableError, match="sudo refused the password"):
            collect(node, b"archive", password=SecretStr("secret"))
    else:
        assert json.loads(collect(node, b"archive", password=SecretStr("secret")))["kind"]
    assert "rm -rf" in node.asked[-1] and len(node.asked) == 4
    assert not any("secret" in command for command in node.asked)
