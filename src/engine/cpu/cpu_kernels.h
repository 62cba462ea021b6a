// The arithmetic of a decode step on the CPU, written once (cpu_kernels.inc) and compiled for
// AVX-512, AVX2 and plain x86-64; the best one this machine has is chosen when the program runs.
//
// Every output row depends on its own input row alone and is summed up in one fixed order, so a
// sequence's numbers are the same, to the bit, whatever else is in the batch.
//
// Nothing but plain types here: this header is read by files compiled for different machines, which
// must share no inline function.
#pragma once

namespace tidemill {

// Positions whose keys and values lie together in one page of the cache.
inline constexpr int kPageSlots = 16;
// Rows of activations and of packed matrices are padded to a multiple of this many numbers.
inline constexpr int kRowPad = 32;

enum class MatmulMode {
  kStore,  // c = a·w + bias
  kAdd,    // c += a·w + bias
  // w holds gate and up (PackGated): c = f(a·gate + bias) * (a·up + bias)
  kSwiGlu,  // f: model/activation.h's silu
  kGeGlu,   // f: its gelu
};

struct MatmulArgs {
  const float* a;       // [rows, lda], k used
  const float* packed;  // as Pack left it
  const float* bias;    // packed likewise; null: none
  float* c;             // [rows, ldc]; writes whole panels, so ldc is padded
  long rows, k, panels;
  long lda, ldc;
  MatmulMode mode;
  // Each row's sums begin with these: [rows, panels · panel], in the order of the packed columns;
  // null: none.
  const float* start = nullptr;
  // Instead of `packed`, as Quantize left them: whole numbers, and what those of a column are
  // times.
  const signed char* bytes = nullptr;
  const float* scales = nullptr;
};

// One query row, all heads, against the pages of its sequence. In a page, the keys of a layer are
// [kv_heads][head_dim][kPageSlots] and its values [kv_heads][kPageSlots][value_stride].
struct AttentionArgs {
  const float* q;  // [heads · head_dim], already scaled
  float* out;      // [heads · head_dim]
  const float* pool;
  const int* pages;  // of the sequence, in order
  long page_stride;  // numbers from one page to the next
  long k_offset;     // of the layer within a page
  long v_offset;
  int heads, kv_heads, head_dim;
  int value_stride;  // head_dim padded to kPageSlots
  int length;        // keys up to the query's own
  int window;        // it sees the last so many of them; 0: all
  // The row that comes after this one, fetched into the cache meanwhile; null: none.
  const int* next_pages;
  int next_length;
  float* scratch;  // 4 · (length padded to 64)
};

// Rows of one sequence that follow one another, whose keys and values are all in their pages. Each
// has the numbers it has alone.
struct AttentionRowsArgs {
  AttentionArgs first;  // without a next; its scratch: 4 · (length of the last padded to 64) and
                        // 8 · head_dim
  int rows;             // row r has `length` + r keys
  long q_stride, out_stride;  // from one row to the next
};

// The steps between the projections and the attention: norm of heads, rotation, place in the
// cache.
struct RotateArgs {
  float* qkv;           // one row: q, k, v; q is left rotated and scaled
  const float* q_norm;  // null: none
  const float* k_norm;
  float eps;
  const float* cos;  // [head_dim / 2] of this position
  const float* sin;
  float q_scale;
  float* keys;  // of the layer in the page of this position, at its slot
  float* values;
  int heads, kv_heads, head_dim, value_stride;
};

struct CpuKernels {
  const char* name;
  int panel;  // columns of a panel: Pack makes [panels][k][panel]
  // w [n, k] as a linear layer has it; columns past n become zero.
  void (*pack)(const float* w, long n, long k, float* packed);
  // Panels of half gate, half up.
  void (*pack_gated)(const float* gate, const float* up, long n, long k, float* packed);
  // Packed panels in eight bits: whole numbers of -127 to 127, k padded to a multiple of 4, and for
  // each column what they are times.
  void (*quantize)(const float* packed, long k, long panels, signed char* bytes, float* scales);
  void (*matmul)(const MatmulArgs& args);
  // What kSwiGlu and kGeGlu make of sums that kStore wrote with gated panels: pairs [rows, panels ·
  // panel] become act [rows, ld], whole half panels.
  void (*gate)(MatmulMode mode, const float* pairs, long rows, long panels, float* act, long ld);
  void (*attention)(const AttentionArgs& args);
  void (*attention_rows)(const AttentionRowsArgs& args);
  void (*rotate)(const RotateArgs& args);
  // out = x / √(mean x² + eps) · weight, row by row; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, long rows, long width, long ld,
                   float* out);
  // e[i] = exp((x[i] − max x) · scale), zero from n to the padded end; returns their sum.
  float (*exp_row)(const float* x, long n, float scale, float* e, float* max);
  // The first i at which e[0] + .. + e[i] exceeds `target`; the last with e[i] > 0 if none does.
  long (*pick)(const float* e, long n, float target);
};

// Those named "avx512", "avx2" or "plain". Null: this machine or this build has none such.
const CpuKernels* CpuKernelsNamed(const char* name);
// Those that are asked for by name. Null, or a name that this machine cannot run, which is logged:
// the best ones for it.
const CpuKernels& ChooseCpuKernels(const char* asked);
// Those of the process: chosen once, by the environment's TIDEMILL_CPU_KERNELS.
const CpuKernels& BestCpuKernels();

}  // namespace tidemill
