(echo 1 > /proc/sys/kernel/panic) 2>/dev/null && echo ESCAPED sysctl
(echo b > /proc/sysrq-trigger) 2>/dev/null && echo ESCAPED sysrq
(echo "|/tmp/x" > /proc/sys/kernel/core_pattern) 2>/dev/null && echo ESCAPED core_pattern
(echo /tmp/x > /proc/sys/kernel/modprobe) 2>/dev/null && echo ESCAPED modprobe
(echo ":x:M::x::/tmp/x:" > /proc/sys/fs/binfmt_misc/register) 2>/dev/null && echo ESCAPED binfmt
(echo 0 0 1 > /proc/self/uid_map) 2>/dev/null && echo ESCAPED uid_map
true
