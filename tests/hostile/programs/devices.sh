for f in /dev/sda /dev/vda /dev/nvme0n1 /dev/fuse /dev/kvm /dev/ptmx /dev/tty /dev/loop-control /dev/net/tun /dev/nvidia0 /dev/mapper/control /dev/uinput; do
  (: < $f) 2>/dev/null && echo ESCAPED $f
done
true
