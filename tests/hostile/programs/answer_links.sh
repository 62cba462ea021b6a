ln -s "$HOST_SECRET" answer.txt
ln -s /etc/shadow shadow
ln -s /proc/1/environ deep
ln -s / root
ln -s ../../.. up
ln -s /proc/self/fd/0 input
mkdir d && ln -s / d/root
ln -s loop loop
echo fine > file
