for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/*/release_agent; do
  (echo 0 > $f) 2>/dev/null && echo ESCAPED $f
done
mkdir /tmp/cg && mount -t cgroup2 none /tmp/cg 2>/dev/null && echo ESCAPED mounted cgroup2
mount -t cgroup -o memory none /tmp/cg 2>/dev/null && echo ESCAPED mounted cgroup
true
