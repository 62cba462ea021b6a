for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > big$i; done
