constexpr int f() {
  int n = 0;
  for (int i = 0; i < 2000000000; ++i) n ^= i;
  return n;
}
constexpr int x = f();
int main() {
  return x;
}
