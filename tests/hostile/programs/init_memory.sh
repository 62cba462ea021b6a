cat /proc/1/environ /proc/1/maps /proc/1/mem /proc/1/auxv 2>/dev/null | grep -q . && echo ESCAPED the init
readlink /proc/1/exe /proc/1/root /proc/1/cwd && echo ESCAPED links of the init
ls /proc/1/fd 2>/dev/null | grep -q . && echo ESCAPED descriptors of the init
true
