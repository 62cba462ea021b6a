ls /proc/1/root/ /proc/1/cwd/.. 2>/dev/null | grep -q . && echo ESCAPED /proc/1/root
ls /proc/self/root/root /proc/self/root/home 2>/dev/null | grep -q . && echo ESCAPED /proc/self/root
true
