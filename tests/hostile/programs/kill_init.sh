for s in KILL STOP TERM SEGV XCPU ABRT; do kill -$s 1 2>/dev/null; done
ls /proc/1/stat > /dev/null || echo ESCAPED the init is gone
