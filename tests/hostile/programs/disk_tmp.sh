head -c 100000000 /dev/zero > /tmp/file
