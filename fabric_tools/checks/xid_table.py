"""What each Xid number means for a node. Source: NVIDIA's Xid catalogue, as also carried by
oci-hpc and gpud; the assignment to classes is by the catalogue's recommended action.

144-150 and 154 are judged by their text (``kernel.judge_xid``) and stand here for their names.
"""

from __future__ import annotations

HARDWARE = "hardware: drain, reboot, RMA if it returns"
RESET = "reset: drain and reset the GPU"
APPLICATION = "application: restart the program"
WATCH = "watch: look for what came before or again"
OBSOLETE = "no longer in the catalogue: ask the vendor"
INFORMATIONAL = "informational"

_CLASSES: dict[str, tuple[int, ...]] = {
    HARDWARE: (48, 54, 74, 78, 79, 144, 145, 146, 147, 148, 149, 150, 151, 154),
    RESET: (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    APPLICATION: (
        8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85,
        86, 88, 89, 94, *range(96, 106), *range(126, 136), 139,
    ),
    # 157 and 161 are informational in the catalogue, but a vendor contact is its second action.
    WATCH: (45, 63, 92, 157, 161),
    OBSOLETE: (57, 58, 61, 65, 73, 81),
    INFORMATIONAL: (
        14, 37, 38, 43, 44, 66, 67, 93, 106, 107, 108, 121, 137, 141, 152, 153, 160,
    ),
}  # fmt: skip

XIDS: dict[int, str] = {number: kind for kind, numbers in _CLASSES.items() for number in numbers}
