#define N 4
static const int w[N] = {1, [2] = 3};
static void swap(int *p, int *q) { int t = *p; *p = *q; *q = t; }
enum { ONE = 1 };
unsigned f(int a, long b) {
  int t[2][N] = {{a, b, ONE}}, i = 0;
  for (int j = 0; j < N; j++) { if (j == a) continue; t[1][j] += w[j] << 1; }
  do { i++; switch (i & 3) { case 0: break; case 2: a--; default: b ^= 'x'; } } while (i < 9 && a);
  swap(&a, &i);
  return a ? t[1][a & 3] : sizeof t + (short)b, -i;
}
