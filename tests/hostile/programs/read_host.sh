cat "$HOST_SECRET" 2>/dev/null
cat /etc/shadow /etc/passwd /root/.bashrc "/proc/$HOST_PID/environ" "/proc/$HOST_PID/maps" 2>/dev/null | grep . && echo ESCAPED a file
ls /root /home /run /sys /mnt /srv /work 2>/dev/null | grep . && echo ESCAPED a folder
true
