(setsid sh -c "sleep 60; echo ESCAPED late" &)
echo started
