"""What a bundle is called, and what its bag says of it in words: both follow from what is inside. Pure."""

import re

from assay.admission import chosen_device
from assay.privacy import printable
from assay.record import Digest, Environment, Overall, Status

LONGEST_SLUG = 40
LONGEST_DESCRIPTION = 2000


def _slug(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:LONGEST_SLUG].strip("-") or "unnamed"


def device_of(environment: Environment) -> str:
    """Return the name of the device that kernels run on, or `no-gpu`."""
    device = chosen_device(environment)
    return "no-gpu" if device is None else device.name


def bundle_name(status: Overall, device: str, day: str, manifest: Digest) -> str:
    """Return the name of a bundle, in [a-z0-9-]. `manifest` is the sha256 of its payload manifest, `day` YYYY-MM-DD."""
    return f"assay-{_slug(status)}-{_slug(device)}-{day}-{manifest[:12]}"


def bag_info(status: Status, day: str) -> dict[str, str]:
    """Return what bag-info.txt says. The day is that of the claims: the same results give the same bytes."""
    sentence = " ".join(printable(status.sentence).split())
    return {"Bagging-Date": day, "External-Description": sentence[:LONGEST_DESCRIPTION].strip()}
