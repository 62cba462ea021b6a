exec truncate -s 50000000 sparse
