#include "engine/cuda/gemm.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <limits>

#include "model/cuda/check.h"

namespace tidemill {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kProposals = 8;
constexpr int kRounds = 4;  // of which the fastest counts

Status BlasStatus(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return Ok();
  return Internal(std::string(what) + ": " + cublasLtGetStatusName(code));
}

#define TM_BLAS(call) TM_RETURN_IF_ERROR(BlasStatus((call), #call))

cudaDataType_t DataType(CudaType type) {
  return type == CudaType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

}  // namespace

struct CudaGemm::State {
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CudaBuffer workspace;

  // The best of some rounds.
  Result<float> TimeOf(cudaGraphExec_t graph) {
    float best = std::numeric_limits<float>::infinity();
    for (int round = 0; round <= kRounds; ++round) {
      TM_CUDA(cudaEventRecord(begin, stream));
      TM_CUDA(cudaGraphLaunch(graph, stream));
      TM_CUDA(cudaEventRecord(end, stream));
      TM_CUDA(cudaEventSynchronize(end));
      float ms = 0;
      TM_CUDA(cudaEventElapsedTime(&ms, begin, end));
      best = std::min(best, ms);
    }
    return best;
  }

  ~State() {
    if (begin != nullptr) cudaEventDestroy(begin);
    if (end != nullptr) cudaEventDestroy(end);
    if (handle != nullptr) cublasLtDestroy(handle);
  }
};

struct CudaGemm::Plan {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  float beta = 0;
  std::array<cublasLtMatmulHeuristicResult_t, kProposals> proposals{};
  size_t count = 0;
  size_t best = 0;
  ~Plan() {
    if (out != nullptr) cublasLtMatrixLayoutDestroy(out);
    if (x != nullptr) cublasLtMatrixLayoutDestroy(x);
    if (w != nullptr) cublasLtMatrixLayoutDestroy(w);
    if (desc != nullptr) cublasLtMatmulDescDestroy(desc);
  }
};

CudaGemm::CudaGemm() : state_(new State) {}
CudaGemm::~CudaGemm() = default;

Result<std::unique_ptr<CudaGemm>> CudaGemm::New(CudaStream stream) {
  std::unique_ptr<CudaGemm> gemm(new CudaGemm);
  State& s = *gemm->state_;
  s.stream = stream;
  TM_BLAS(cublasLtCreate(&s.handle));
  TM_CUDA(cudaEventCreate(&s.begin));
  TM_CUDA(cudaEventCreate(&s.end));
  TM_RETURN_IF_ERROR(s.workspace.Allocate(kWorkspaceBytes, "matrix products"));
  return gemm;
}

Result<CudaGemm::Plan*> CudaGemm::PlanOf(const GemmShape& shape) {
  if (const auto found = plans_.find(shape); found != plans_.end()) return found->second.get();
  // cuBLASLt is column major: it sees outᵀ [n, rows] = w [k, n]ᵀ · xᵀ [k, rows].
  auto plan = std::make_unique<Plan>();
  const cudaDataType_t in = DataType(shape.type);
  const cudaDataType_t out = shape.wide ? CUDA_R_32F : in;
  TM_BLAS(cublasLtMatmulDescCreate(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t transpose = CUBLAS_OP_T;
  TM_BLAS(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                         sizeof(transpose)));
  if (shape.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    TM_BLAS(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof(epilogue)));
  }
  const auto n = static_cast<uint64_t>(shape.n), k = static_cast<uint64_t>(shape.k);
  const auto rows = static_cast<uint64_t>(shape.rows);
  TM_BLAS(cublasLtMatrixLayoutCreate(&plan->w, in, k, n, shape.k));
  TM_BLAS(cublasLtMatrixLayoutCreate(&plan->x, in, k, rows, shape.k));
  TM_BLAS(cublasLtMatrixLayoutCreate(&plan->out, out, n, rows, shape.stride));
  plan->beta = shape.accumulate ? 1.0f : 0.0f;

  cublasLtMatmulPreference_t preference = nullptr;
  TM_BLAS(cublasLtMatmulPreferenceCreate(&preference));
  size_t workspace = kWorkspaceBytes;
  int found = 0;
  cublasStatus_t code = cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
  if (code == CUBLAS_STATUS_SUCCESS) {
    code = cublasLtMatmulAlgoGetHeuristic(state_->handle, plan->desc, plan->w, plan->x, plan->out,
                                          plan->out, preference, kProposals, plan->proposals.data(),
                                          &found);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  TM_RETURN_IF_ERROR(BlasStatus(code, "choosing a matrix product"));
  if (found == 0) return Internal("cuBLASLt has no way to multiply these matrices");
  plan->count = static_cast<size_t>(found);
  return plans_.emplace(shape, std::move(plan)).first->second.get();
}

Status CudaGemm::Launch(Plan& plan, size_t choice, const void* x, const void* w, const void* bias,
                        void* out) {
  if (bias != nullptr) {
    TM_BLAS(cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                           sizeof(bias)));
  }
  const float one = 1.0f;
  TM_BLAS(cublasLtMatmul(state_->handle, plan.desc, &one, w, plan.w, x, plan.x, &plan.beta, out,
                         plan.out, out, plan.out, &plan.proposals[choice].algo,
                         state_->workspace.as(), kWorkspaceBytes, state_->stream));
  return Ok();
}

Status CudaGemm::Tune(const GemmShape& shape, const void* x, std::span<const void* const> weights,
                      const void* bias, void* out) {
  TM_ASSIGN_OR_RETURN(Plan * plan, PlanOf(shape));
  if (plan->count == 1) return Ok();
  float best_ms = std::numeric_limits<float>::infinity();
  for (size_t choice = 0; choice < plan->count; ++choice) {
    // A proposal may turn out not to run; the others are left then.
    if (!Launch(*plan, choice, x, weights[0], bias, out).ok()) continue;
    // As part of a graph, as it will run: some products bring a memset along, which costs more
    // there.
    TM_CUDA(cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal));
    Status launched;
    for (const void* w : weights) {
      if (launched.ok()) launched = Launch(*plan, choice, x, w, bias, out);
    }
    cudaGraph_t graph = nullptr;
    TM_CUDA(cudaStreamEndCapture(state_->stream, &graph));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphDestroy(graph);
    TM_RETURN_IF_ERROR(launched);
    TM_CUDA(made);
    const Result<float> ms = state_->TimeOf(ready);
    cudaGraphExecDestroy(ready);
    TM_RETURN_IF_ERROR(ms.status());
    if (*ms < best_ms) {
      best_ms = *ms;
      plan->best = choice;
    }
  }
  return Ok();
}

Status CudaGemm::Run(const GemmShape& shape, const void* x, const void* w, const void* bias,
                     void* out) {
  TM_ASSIGN_OR_RETURN(Plan * plan, PlanOf(shape));
  return Launch(*plan, plan->best, x, w, bias, out);
}

}  // namespace tidemill
