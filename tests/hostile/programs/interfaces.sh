grep -vE "Inter-|face|lo:" /proc/net/dev | grep -q . && echo ESCAPED an interface
tail -n +2 /proc/net/route | grep -q . && echo ESCAPED a route
tail -n +2 /proc/net/tcp | grep -q . && echo ESCAPED connections
true
