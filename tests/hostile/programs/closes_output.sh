exec >&- 2>&- <&-
sleep 0.2
exit 7
