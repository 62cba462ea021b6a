cat /proc/[0-9]*/comm | grep -E "hostile_test|tidemill$|bwrap|systemd|redis" && echo ESCAPED a process
[ -d "/proc/$HOST_PID" ] && grep -q hostile "/proc/$HOST_PID/cmdline" && echo ESCAPED the executor
true
