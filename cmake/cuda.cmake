# The CUDA sources (src/engine/cuda, src/model/cuda). They are compiled wherever there is nvcc, so that they cannot
# rot; they are part of the program (TIDEMILL_CUDA) where libtorch has CUDA too. A CPU build must not
# load CUDA's libraries, hundreds of megabytes, each time it starts.

option(TIDEMILL_GPU "Use CUDA where it is there" ON)

find_program(TIDEMILL_NVCC nvcc PATHS /usr/local/cuda/bin)
set(TIDEMILL_CUDA OFF)
find_package(CUDAToolkit QUIET)
if(TIDEMILL_TORCH AND TIDEMILL_GPU AND TIDEMILL_NVCC AND TARGET CUDA::cublasLt AND NOT TIDEMILL_SANITIZE)
  set(CMAKE_CUDA_COMPILER ${TIDEMILL_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES 90)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # Debian's CMake does not know what a newer nvcc calls it.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/engine/cuda/*.cu
    ${CMAKE_SOURCE_DIR}/src/engine/cuda/*.cc ${CMAKE_SOURCE_DIR}/src/model/cuda/*.cu ${CMAKE_SOURCE_DIR}/src/model/cuda/*.cc)
  list(FILTER cuda_sources EXCLUDE REGEX "_test\\.cc$")
  add_library(tidemill_cuda STATIC ${cuda_sources})
  # Its numbers are to be those of the CPU, which does not fuse either; memory is what it waits for.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/model/cuda/train_adamw.cu PROPERTIES
    COMPILE_OPTIONS -fmad=false)
  # Its few C++ files have their own flags; CUDA files would take longer together (newer CMakes would put them so).
  set_property(TARGET tidemill_cuda PROPERTY UNITY_BUILD OFF)
  target_include_directories(tidemill_cuda PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(tidemill_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>"
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>")
  target_link_libraries(tidemill_cuda PUBLIC CUDA::cudart CUDA::cublasLt)
  if(TIDEMILL_TORCH_ROOT AND EXISTS ${TIDEMILL_TORCH_ROOT}/lib/libtorch_cuda.so)
    set(TIDEMILL_CUDA ON)
    target_compile_definitions(tidemill_torch INTERFACE TIDEMILL_CUDA)
    target_link_libraries(tidemill_torch INTERFACE tidemill_cuda
      -Wl,--no-as-needed torch torch_cuda c10_cuda -Wl,--as-needed)
  endif()
endif()
