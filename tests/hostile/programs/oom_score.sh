(echo -1000 > /proc/self/oom_score_adj) 2>/dev/null && echo ESCAPED oom_score_adj
(echo -17 > /proc/self/oom_adj) 2>/dev/null && echo ESCAPED oom_adj
(echo 1000 > /proc/1/oom_score_adj) 2>/dev/null && echo ESCAPED the init
true
