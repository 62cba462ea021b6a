head -c 1000000000 /dev/zero >&2
