# tidemill_c10d: what joins several learners (src/learner/torch/rank_group.cc). Debian's libtorch has
# Gloo, whose headers are libgloo-dev's. Another libtorch is asked by compiling what is needed of it;
# without Gloo the program is built all the same and refuses learner.ranks above 1.

add_library(tidemill_c10d INTERFACE)
target_link_libraries(tidemill_c10d INTERFACE tidemill_torch)
find_path(GLOO_INCLUDE gloo/context.h HINTS ${TIDEMILL_TORCH_ROOT}/include)
if(NOT TIDEMILL_TORCH_ROOT)
  set(TIDEMILL_GLOO ${GLOO_INCLUDE})
elseif(GLOO_INCLUDE)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${TIDEMILL_TORCH_ROOT}/include ${GLOO_INCLUDE}
    ${TIDEMILL_TORCH_ROOT}/include/torch/csrc/api/include)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  set(CMAKE_REQUIRED_DEFINITIONS -DUSE_C10D_GLOO)
  check_cxx_source_compiles("
    #include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
    void F(c10::intrusive_ptr<c10d::Store> store, std::vector<at::Tensor>& tensors) {
      auto options = c10d::ProcessGroupGloo::Options::create();
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, 0, 2, options)->allreduce(tensors)->wait();
    }" TIDEMILL_GLOO)
  find_package(CUDAToolkit QUIET)
  set(CMAKE_REQUIRED_DEFINITIONS -DUSE_C10D_NCCL)
  list(APPEND CMAKE_REQUIRED_INCLUDES ${CUDAToolkit_INCLUDE_DIRS})
  check_cxx_source_compiles("
    #include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
    bool F(c10::intrusive_ptr<c10d::Store> store, std::vector<at::Tensor>& tensors) {
      auto options = c10d::ProcessGroupNCCL::Options::create();
      auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, 0, 2, options);
      return nccl->allreduce(tensors)->isCompleted();
    }" TIDEMILL_NCCL)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_DEFINITIONS)
  unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
endif()
if(TIDEMILL_GLOO)
  target_compile_definitions(tidemill_c10d INTERFACE USE_C10D_GLOO)
  target_include_directories(tidemill_c10d SYSTEM INTERFACE ${GLOO_INCLUDE})
  if(NOT TIDEMILL_TORCH_ROOT)
    # The headers' inline destructors; the same library libtorch itself loads.
    find_library(GLOO_LIBRARY gloo REQUIRED)
    target_link_libraries(tidemill_c10d INTERFACE ${GLOO_LIBRARY})
  endif()
  if(TIDEMILL_NCCL)
    target_compile_definitions(tidemill_c10d INTERFACE USE_C10D_NCCL)
    target_include_directories(tidemill_c10d SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  endif()
endif()
