template <int N, int M>
struct A {
  static constexpr int v = A<N + 1, M>::v + A<N, M + 1>::v;
};
int x = A<0, 0>::v;
