"""Scorers that the tests start in another process."""
import asyncio

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


@tidemill.scorer
def no_number(episode):
    return "good"


if __name__ == "__main__":
    raise SystemExit("the worker imports this file, it does not run it")
