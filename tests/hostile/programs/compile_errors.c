#define E X(x) y[ z{
#define F E E E E E E E E E E
#define G F F F F F F F F F F
int f(void) { G G G G }
