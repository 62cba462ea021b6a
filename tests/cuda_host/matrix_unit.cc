// What a warp's matrix unit computes.
#include <cuda_bf16.h>

namespace cuda_host {
namespace {

struct Operands {
  unsigned a[4], b[2];
};
struct Sums {
  float c[4];
};

// The low and the high half of a word.
void Unpack(unsigned word, float* low, float* high) {
  *low = std::bit_cast<float>(word << 16);
  *high = std::bit_cast<float>(word & 0xffff0000u);
}

void MultiplyTile(LaneValues& lanes) {
  float a[16][16], b[8][16];  // b by columns
  for (int lane = 0; lane < 32; ++lane) {
    Operands in;
    std::memcpy(&in, lanes.of[lane], sizeof(in));
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      float* at = &a[g + i % 2 * 8][2 * t + i / 2 * 8];
      Unpack(in.a[i], at, at + 1);
    }
    for (int i = 0; i < 2; ++i) Unpack(in.b[i], &b[g][2 * t + i * 8], &b[g][2 * t + i * 8 + 1]);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    Sums out{};
    for (int i = 0; i < 4; ++i) {
      const float* row = a[g + i / 2 * 8];
      const float* column = b[2 * t + i % 2];
      for (int k = 0; k < 16; ++k) out.c[i] += row[k] * column[k];
    }
    std::memcpy(lanes.of[lane], &out, sizeof(out));
  }
}

}  // namespace

void Mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const Operands in{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const LaneValues& lanes = Meet(Meeting::kMma, 0xffffffffu, &in, sizeof(in), MultiplyTile);
  Sums mine;
  std::memcpy(&mine, lanes.of[threadIdx.x % 32], sizeof(mine));
  for (int i = 0; i < 4; ++i) c[i] += mine.c[i];
}

}  // namespace cuda_host
