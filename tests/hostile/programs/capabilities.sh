grep -E "Cap(Inh|Prm|Eff|Bnd|Amb)" /proc/self/status | grep -v 0000000000000000 && echo ESCAPED a capability
grep -q "NoNewPrivs:.1" /proc/self/status || echo ESCAPED new privileges
grep -q "Seccomp:.2" /proc/self/status || echo ESCAPED no filter
true
