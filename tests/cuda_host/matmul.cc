// cuBLASLt's products, one dot product after the other.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "tests/cuda_host/stream.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
// Column major.
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t stride;
};
struct cublasLtMatmulPreferenceOpaque {};

namespace {

using Layout = cublasLtMatrixLayoutOpaque;

std::atomic<int> proposals{1};

float Get(const void* data, cudaDataType_t type, int64_t at) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[at]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
}

// Vector i is row i of the matrix, or with `columns` column i.
std::vector<float> Vectors(const void* data, const Layout& layout, bool columns) {
  const auto count = static_cast<int64_t>(columns ? layout.columns : layout.rows);
  const auto length = static_cast<int64_t>(columns ? layout.rows : layout.columns);
  std::vector<float> out(static_cast<size_t>(count * length));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = columns ? i * layout.stride + k : k * layout.stride + i;
      out[static_cast<size_t>(i * length + k)] = Get(data, layout.type, at);
    }
  }
  return out;
}

constexpr int kLanes = 16;

// Four dot products of `a` with neighbouring vectors.
inline void Dot4(const float* a, const float* b, int64_t length, float* out) {
  float sums[4][kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= length; k += kLanes) {
    for (int v = 0; v < 4; ++v) {
      for (int i = 0; i < kLanes; ++i) sums[v][i] += a[k + i] * b[v * length + k + i];
    }
  }
  for (int v = 0; v < 4; ++v) {
    out[v] = 0;
    for (int i = 0; i < kLanes; ++i) out[v] += sums[v][i];
    for (int64_t rest = k; rest < length; ++rest) out[v] += a[rest] * b[v * length + rest];
  }
}

// out[column][4] for every vector of `b`.
#ifdef __x86_64__
__attribute__((target_clones("arch=haswell", "default")))
#endif
void Dots(const float* four, const float* b, int64_t columns, int64_t length, float* out) {
  for (int64_t column = 0; column < columns; ++column) {
    Dot4(b + column * length, four, length, out + column * 4);
  }
}

struct Product {
  cublasLtMatmulDescOpaque desc;
  Layout a_layout, b_layout, c_layout, d_layout;
  const void *a, *b, *c;
  void* d;
  float alpha, beta;

  void Put(int64_t row, int64_t column, float sum) const {
    float value = alpha * sum;
    if (beta != 0) value += beta * Get(c, c_layout.type, column * c_layout.stride + row);
    if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) value += Get(desc.bias, d_layout.type, row);
    const int64_t at = column * d_layout.stride + row;
    if (d_layout.type == CUDA_R_32F) {
      static_cast<float*>(d)[at] = value;
    } else {
      static_cast<__nv_bfloat16*>(d)[at] = __float2bfloat16(value);
    }
  }

  void operator()() const {
    const bool a_columns = desc.transpose_a == CUBLAS_OP_T;
    const bool b_columns = desc.transpose_b == CUBLAS_OP_N;
    const auto rows = static_cast<int64_t>(d_layout.rows);
    const auto columns = static_cast<int64_t>(d_layout.columns);
    const auto length = static_cast<int64_t>(a_columns ? a_layout.rows : a_layout.columns);
    std::vector<float> left = Vectors(a, a_layout, a_columns);
    const std::vector<float> right = Vectors(b, b_layout, b_columns);
    left.resize(left.size() + static_cast<size_t>(3 * length));  // the last four may not be whole
    std::vector<float> sums(static_cast<size_t>(columns) * 4);
    for (int64_t row = 0; row < rows; row += 4) {
      Dots(left.data() + row * length, right.data(), columns, length, sums.data());
      const int64_t count = std::min<int64_t>(4, rows - row);
      for (int64_t column = 0; column < columns; ++column) {
        for (int64_t i = 0; i < count; ++i) {
          Put(row + i, column, sums[static_cast<size_t>(column * 4 + i)]);
        }
      }
    }
  }
};

bool Fits(const Product& p) {
  const bool at = p.desc.transpose_a == CUBLAS_OP_T, bt = p.desc.transpose_b == CUBLAS_OP_T;
  const uint64_t m = at ? p.a_layout.columns : p.a_layout.rows;
  const uint64_t k = at ? p.a_layout.rows : p.a_layout.columns;
  const uint64_t n = bt ? p.b_layout.rows : p.b_layout.columns;
  const auto whole = [](const Layout& l) { return l.stride >= static_cast<int64_t>(l.rows); };
  return k == (bt ? p.b_layout.columns : p.b_layout.rows) && m == p.d_layout.rows &&
         n == p.d_layout.columns && m == p.c_layout.rows && n == p.c_layout.columns &&
         whole(p.a_layout) && whole(p.b_layout) && whole(p.c_layout) && whole(p.d_layout) &&
         p.a_layout.type == p.b_layout.type && p.c_layout.type == p.d_layout.type &&
         (p.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || p.desc.bias != nullptr);
}

template <typename T>
cublasStatus_t Take(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

void cuda_host::SetProposals(int count) {
  proposals = count;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    default:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t,
                                        cudaDataType_t) {
  *desc = new cublasLtMatmulDescOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Take(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Take(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Take(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Take(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  *layout = new cublasLtMatrixLayoutOpaque{type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = std::min(wanted, proposals.load());
  for (int i = 0; i < *found; ++i) results[i] = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*,
                              size_t, cudaStream_t stream) {
  const Product product{*desc,
                        *a_layout,
                        *b_layout,
                        *c_layout,
                        *d_layout,
                        a,
                        b,
                        c,
                        d,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta)};
  if (!Fits(product)) return CUBLAS_STATUS_INVALID_VALUE;
  cuda_host::Enqueue(stream, product);
  return CUBLAS_STATUS_SUCCESS;
}
