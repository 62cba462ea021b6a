cd /; for i in 1 2 3 4 5 6 7 8; do cd ..; done
cat ".$HOST_SECRET" "../../../../../..$HOST_SECRET" 2>/dev/null
ls | grep -E "^(root|home|sys|work)$" && echo ESCAPED the root
true
