cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep HOSTILE_VARIABLE && echo ESCAPED the environment
true
