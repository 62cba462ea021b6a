ln /usr/bin/env env 2>/dev/null && echo ESCAPED a hard link
ln /proc/self/exe exe 2>/dev/null && echo ESCAPED a hard link
ln -L /dev/stdin in 2>/dev/null
true
