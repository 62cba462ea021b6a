mkfifo answer.c solution.c main.py
(sleep 60 > answer.c) 2>/dev/null &
true
