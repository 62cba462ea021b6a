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


def serve(link: Link | None) -> None:
    hello = next_command(link)
    if hello is None:
        return
    try:
        ranks = Ranks(hello.words)
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="tidemill_fsdp")
    parser.add_argument("--socket", required=True, help="where Tidemill listens")
    arguments = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=FOREVER)
    else:
        dist.init_process_group("gloo", timeout=FOREVER)
    serve(Link(arguments.socket) if dist.get_rank() == 0 else None)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
