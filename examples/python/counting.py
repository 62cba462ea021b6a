"""A tool and a scorer for examples/python/train.py: the agent is asked how many letters the word in a file has."""
import tidemill


@tidemill.tool
def letters(path: str, files: tidemill.Files) -> str:
    """Counts the letters of the word in a file."""
    if path not in files:
        raise tidemill.Refused(f"there is no file {path}; there are {', '.join(files)}")
    return str(len(files[path].strip()))


@tidemill.scorer(version=1, slots=4)
def right_number(episode: tidemill.Episode):
    """1 for the right number, nothing for another one, a little less than nothing for no answer."""
    said = episode.submission.strip()
    if not said:
        return -0.1, "no answer"
    right = str(episode.metadata["letters"])
    return float(said == right), f"said {said[:20]}, right is {right}"
