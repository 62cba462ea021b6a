head -c 100000000 /dev/zero > /dev/shm/file
