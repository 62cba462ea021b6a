"""Tools and group functions that the tests start in another process."""
import asyncio

import tidemill


@tidemill.tool
def word_count(path: str, files: tidemill.Files, least: int = 1) -> str:
    """Counts the words of a file that are long enough."""
    if path not in files:
        raise tidemill.Refused(f"there is no file {path}")
    return str(sum(len(word) >= least for word in files[path].split()))


@tidemill.tool(slots=3, timeout_s=5)
async def rename(old: str, new: str, files: tidemill.Files) -> str:
    """Gives a file another name."""
    await asyncio.sleep(0)
    files[new] = files.pop(old)
    return f"{old} is now {new}"


@tidemill.tool
def no_text() -> str:
    """Returns what no model can read."""
    return 3


@tidemill.advantage
def centered(group):
    mean = sum(member.reward for member in group) / len(group)
    return [member.reward - mean for member in group]


@tidemill.filter(slots=7)
async def submitted(group):
    return [member.end == "submitted" for member in group]


@tidemill.filter
def first_three(group):
    return [member.said["member"] < 3 for member in group]


@tidemill.filter
def never(group):
    return False


@tidemill.filter
def raises(group):
    raise LookupError("no such group")


@tidemill.advantage
def too_few(group):
    return [0.0]
