for p in / /usr /usr/bin /bin /etc /dev /proc /proc/sys/kernel /usr/lib /var /sbin /lib64; do
  (: > $p/planted) 2>/dev/null && echo ESCAPED $p
  mkdir $p/folder 2>/dev/null && echo ESCAPED $p
done
rm -f /usr/bin/env /bin/sh 2>/dev/null
[ -e /usr/bin/env ] || echo ESCAPED removed a program
chmod 777 /usr/bin 2>/dev/null && echo ESCAPED chmod
true
