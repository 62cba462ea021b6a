"""One rank; torchrun starts them: torchrun --nproc-per-node N -m tidemill_fsdp --socket PATH"""

import argparse
import datetime
import os
import sys

import torch
import torch.distributed as dist

from tidemill_fsdp.files import Refused
from tidemill_fsdp.ranks import Ranks
from tidemill_fsdp.wire import Link, Message

# Tidemill ends ranks that hang; a rank that waits for its first command must not give up by itself.
FOREVER = datetime.timedelta(days=365)
COMMANDS = ("score", "update", "gradients", "begin", "undo", "end", "publish", "checkpoint", "restore")


def next_command(link: Link | None) -> Message | None:
    """Rank 0 reads it, all ranks get it."""
    box = [link.read() if link else None]
    dist.broadcast_object_list(box, src=0)
    return box[0]


class Pulse:
    """A sign of life at every part of the work: a count in a file of this rank, and a word of rank 0 to Tidemill."""

    def __init__(self, link: Link | None, folder: str):
        self._link = link
        self._file = os.open(os.path.join(folder, f"rank-{dist.get_rank()}"), os.O_WRONLY | os.O_CREAT, 0o600)
        self._count = 0
        self.beat()

    def beat(self) -> None:
        self._count += 1
        os.pwrite(self._file, b"%d\n" % self._count, 0)
        if self._link and self._count > 1:
            self._link.write(Message({"progress": self._count}))


def serve(link: Link | None, pulse: Pulse) -> None:
    hello = next_command(link)
    if hello is None:
        return
    try:
        ranks = Ranks(hello.words, pulse.beat)
    except Refused as why:
        if link:
            link.write(Message({"refused": str(why)}))
        return
    answer = ranks.hello()
    while True:
        if link:
            link.write(answer)
        command = next_command(link)
        if command is None or command.words["verb"] == "bye":
            return
        verb = command.words["verb"]
        try:
            if verb not in COMMANDS:
                raise Refused(f'unknown command "{verb}"')
            answer = getattr(ranks, verb)(command)
        except Refused as why:
            answer = Message({"refused": str(why)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="tidemill_fsdp")
    parser.add_argument("--socket", required=True, help="where Tidemill listens")
    arguments = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=FOREVER)
    else:
        dist.init_process_group("gloo", timeout=FOREVER)
    link = Link(arguments.socket) if dist.get_rank() == 0 else None
    serve(link, Pulse(link, os.path.dirname(arguments.socket)))
    dist.barrier()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # a group that is taken apart while another rank still talks ends in an abort
