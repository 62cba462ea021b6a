mknod answer.c c 1 5 2>/dev/null && echo ESCAPED a device
mknod disk b 8 0 2>/dev/null && echo ESCAPED a disk
ln -s /dev/zero zero.c
ln -s /dev/urandom random.c
true
