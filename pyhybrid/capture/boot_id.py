"""Which run of the kernel this is."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """What tells this run of the kernel from others; "" where it is not known."""
    try:
        with open(BOOT_ID, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
