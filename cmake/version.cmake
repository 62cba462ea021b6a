# tidemill_version: the library behind src/core/version.h. Its source is written anew at every build, and
# changed only when `git describe` says something else.

set(torch_version "")
if(TIDEMILL_TORCH)
  # Of the libtorch that is linked: beside a newer one Debian's may be installed too, and newer ones have moved it.
  if(TIDEMILL_TORCH_ROOT)
    find_file(TORCH_VERSION_HEADER NAMES torch/headeronly/version.h torch/csrc/api/include/torch/version.h
      PATHS ${TIDEMILL_TORCH_ROOT}/include NO_DEFAULT_PATH)
  else()
    find_file(TORCH_VERSION_HEADER torch/version.h PATH_SUFFIXES torch/csrc/api/include)
  endif()
  if(TORCH_VERSION_HEADER)
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${TORCH_VERSION_HEADER} line REGEX "#define TORCH_VERSION_${part} ")
      string(REGEX REPLACE ".* " "" ${part} "${line}")
    endforeach()
    set(torch_version "${MAJOR}.${MINOR}.${PATCH}")
  endif()
endif()

set(version_source ${CMAKE_BINARY_DIR}/generated/version.cc)
add_custom_target(tidemill_version_source
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DOUTPUT=${version_source}
          -DVERSION=${PROJECT_VERSION} -DTORCH=${torch_version}
          -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake
  BYPRODUCTS ${version_source}
  COMMENT "")
add_library(tidemill_version STATIC ${version_source})
add_dependencies(tidemill_version tidemill_version_source)
target_include_directories(tidemill_version PRIVATE ${CMAKE_SOURCE_DIR}/src)
