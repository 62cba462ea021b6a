for f in /proc/kcore /dev/mem /dev/kmem /dev/kmsg /dev/port /proc/kmsg /proc/kpagecount /proc/vmcore; do
  head -c 1 $f 2>/dev/null | grep -q . && echo ESCAPED $f
done
dmesg 2>/dev/null | grep -q . && echo ESCAPED dmesg
grep -v "^0* " /proc/kallsyms 2>/dev/null | grep -q "^[0-9a-f]*[1-9a-f]" && echo ESCAPED addresses of the kernel
true
