date -s "2001-01-01" 2>/dev/null | grep -q 2001 && [ "$(date +%Y)" = 2001 ] && echo ESCAPED the clock
true
