for c in "su -c id" "sudo -n id" "mount -t tmpfs none /tmp" "pkexec id" "newgrp root" "chsh -s /tmp/x" "passwd -d root"; do
  $c < /dev/null 2>/dev/null | grep "uid=0" && echo ESCAPED $c
done
true
