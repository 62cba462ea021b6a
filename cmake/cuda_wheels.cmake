# A CUDA toolkit from PyPI's wheels (scripts/gpu-build): nvcc beside the libtorch that TIDEMILL_TORCH_ROOT names. The
# wheels have their own layout, without lib64 and without names such as libcudart.so that a linker asks for. Here they
# become a toolkit in the usual layout, made of links.

set(wheels ${TIDEMILL_TORCH_ROOT}/../nvidia/cu13)
if(TIDEMILL_TORCH_ROOT AND EXISTS ${wheels}/bin/nvcc)
  get_filename_component(wheels ${wheels} ABSOLUTE)
  set(toolkit ${CMAKE_BINARY_DIR}/generated/cuda)
  file(MAKE_DIRECTORY ${toolkit}/bin ${toolkit}/lib64)
  foreach(name include nvvm)
    file(CREATE_LINK ${wheels}/${name} ${toolkit}/${name} SYMBOLIC)
  endforeach()
  # nvcc looks for the rest beside the path it was called by, so its folder is no link.
  file(GLOB files ${wheels}/bin/* ${wheels}/lib/*.a ${wheels}/lib/*.so.*)
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    if(file MATCHES "/bin/[^/]*$")
      file(CREATE_LINK ${file} ${toolkit}/bin/${name} SYMBOLIC)
    else()
      # By the name a linker asks for, and by the one a program asks for.
      string(REGEX REPLACE "\\.so\\..*$" ".so" plain ${name})
      file(CREATE_LINK ${file} ${toolkit}/lib64/${plain} SYMBOLIC)
      file(CREATE_LINK ${file} ${toolkit}/lib64/${name} SYMBOLIC)
    endif()
  endforeach()
  if(NOT TARGET CUDA::nvToolsExt)
    # CMake 3.25 marks it as deprecated without asking whether it is there; CUDA 13 has none.
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  set(CUDAToolkit_ROOT ${toolkit})
  set(TIDEMILL_NVCC ${toolkit}/bin/nvcc CACHE FILEPATH "nvcc")
endif()
