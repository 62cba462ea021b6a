"""Scorers that the tests start in another process."""
import asyncio
import os
import signal
import time

import tidemill


@tidemill.scorer(version=3)
def by_member(episode):
    """Differs within a group and depends on no sample."""
    print("a print is no answer")
    return 0.2 + 0.3 * (episode.member % 3), f"member {episode.member}"


@tidemill.scorer(slots=4)
async def slow_first(episode):
    if episode.member == 0:
        await asyncio.sleep(0.05)
    return tidemill.Score(0.5, parts={"share": episode.tests_passed_share})


@tidemill.scorer
def raises(episode):
    return 1 / len(episode.submission)


@tidemill.scorer(slots=1)
def raises_hangs_and_dies(episode):
    """One member of each group has a scorer that fails, in a way that depends on the group."""
    if episode.group > 0 and episode.member == 3:
        way = episode.group % 3
        if way == 0:
            raise RuntimeError("out of order")
        if way == 1:
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)
    return 0.2 + 0.3 * episode.member


@tidemill.scorer
def no_number(episode):
    return "good"


if __name__ == "__main__":
    raise SystemExit("the worker imports this file, it does not run it")
