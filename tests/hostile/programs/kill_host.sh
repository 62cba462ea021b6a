for p in "$HOST_PID" "-$HOST_PID"; do kill -0 "$p" 2>/dev/null && echo ESCAPED a process of the host; done
true
