for i in 1 2 3 4 5; do head -c 3000000 /dev/zero > /tmp/$i; done
