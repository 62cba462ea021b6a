# The few words in which every folder's CMakeLists.txt is written.

# An object does not depend on where the tree is, so a second clone finds the first one's objects in the cache: paths
# below the tree are relative, for ccache and in what the compiler writes (__FILE__, debug symbols).
find_program(CCACHE ccache)
if(CCACHE)
  set(ccache_words CCACHE_BASEDIR=${CMAKE_SOURCE_DIR})
  if(TIDEMILL_PRECOMPILE)
    list(APPEND ccache_words CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER env ${ccache_words} ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)

add_library(tidemill_flags INTERFACE)
target_compile_options(tidemill_flags INTERFACE -Wall -Wextra)
if(TIDEMILL_WERROR)
  target_compile_options(tidemill_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms of g++ 12 over std::string (GCC bug 105651).
  target_compile_options(tidemill_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # What src/core/mutex.h says of locks and fields.
  target_compile_options(tidemill_flags INTERFACE -Wthread-safety)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ takes a source included by another for a header, where a class must not have members of a type in an
  # anonymous namespace.
  target_compile_options(tidemill_flags INTERFACE -Wno-subobject-linkage)
endif()
if(TIDEMILL_SANITIZE)
  add_compile_options(-fsanitize=${TIDEMILL_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TIDEMILL_SANITIZE})
endif()
if(TIDEMILL_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # It knows no fences. Ours order memory between processes, which it does not see either.
  target_compile_options(tidemill_flags INTERFACE -Wno-tsan)
endif()

# What most sources include. A source with other flags than its library's reads the headers themselves.
set(precompiled <algorithm> <chrono> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
  <utility> <vector>)
if(TIDEMILL_PRECOMPILE)
  set(CMAKE_CXX_COMPILE_OPTIONS_INVALID_PCH "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
  endif()
endif()

# testing/test_folders.h
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/test_folders.cc @ONLY CONTENT [[
#include "testing/test_folders.h"

namespace tidemill {

std::string SourceDir() { return "@CMAKE_SOURCE_DIR@"; }
std::string BinaryDir() { return "@CMAKE_BINARY_DIR@"; }

}  // namespace tidemill
]])
add_library(tidemill_test_folders STATIC ${CMAKE_BINARY_DIR}/generated/test_folders.cc)
target_include_directories(tidemill_test_folders PRIVATE ${CMAKE_SOURCE_DIR})

# tidemill_library(NAME LINK libraries... [FOLDER folder] [SUBFOLDERS folders...] [FILES files...] [EXCLUDE files...]):
# one library from every .cc of this folder (or of the one named, and of the subfolders named) but its tests
# (*_test.cc), its programs (*_main.cc) and the files excluded; or from the files named.
function(tidemill_library name)
  cmake_parse_arguments(ARG "" "FOLDER" "LINK;SUBFOLDERS;FILES;EXCLUDE" ${ARGN})
  set(patterns *.cc)
  if(ARG_FOLDER)
    set(patterns ${ARG_FOLDER}/*.cc)
  endif()
  foreach(folder ${ARG_SUBFOLDERS})
    list(APPEND patterns ${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  list(FILTER sources EXCLUDE REGEX "_(test|main)\\.cc$")
  foreach(excluded ${ARG_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "/${excluded}$")
  endforeach()
  if(ARG_FILES)
    set(sources ${ARG_FILES})
  endif()
  add_library(tidemill_${name} STATIC ${sources})
  target_include_directories(tidemill_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(tidemill_${name} PUBLIC ${ARG_LINK} PRIVATE tidemill_flags)
  if(TIDEMILL_PRECOMPILE)
    foreach(header ${precompiled})
      target_precompile_headers(tidemill_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
    endforeach()
  endif()
endfunction()

# tidemill_tests(NAME LINK libraries... [LABELS labels...] [FILES files...] [EXCLUDE files...]
# [TIMEOUT seconds]): one program from the folder's *_test.cc less those excluded (or the files named),
# each test known to ctest by its own name.
function(tidemill_tests name)
  cmake_parse_arguments(ARG "TOGETHER" "TIMEOUT" "LINK;LABELS;FILES;EXCLUDE" ${ARGN})
  if(NOT ARG_FILES)
    file(GLOB ARG_FILES CONFIGURE_DEPENDS *_test.cc)
    foreach(excluded ${ARG_EXCLUDE})
      list(FILTER ARG_FILES EXCLUDE REGEX "/${excluded}$")
    endforeach()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name}_test ${ARG_FILES})
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name}_test PRIVATE ${ARG_LINK} $<TARGET_NAME_IF_EXISTS:GTest::gmock> GTest::gtest_main
    tidemill_test_folders tidemill_flags)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    # A tenth less time to compile than with -O1 (ten files of ours); what is tested keeps its own
    # optimization.
    target_compile_options(${name}_test PRIVATE -O0)
  endif()
  if(ARG_TOGETHER)
    # What its tests share takes seconds to start.
    add_test(NAME ${name}_test COMMAND ${name}_test)
    set_tests_properties(${name}_test PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT})
    return()
  endif()
  include(GoogleTest)
  # What may take longest starts first, so that the last test does not run alone for minutes.
  gtest_discover_tests(${name}_test NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT})
endfunction()

# tidemill_program(NAME FILES files... LINK libraries...): the program tidemill-NAME, which `tidemill NAME` starts, where
# it looks for it (src/core/shipped_files.h).
function(tidemill_program name)
  cmake_parse_arguments(ARG "" "" "FILES;LINK" ${ARGN})
  add_executable(tidemill-${name} ${ARG_FILES})
  target_link_libraries(tidemill-${name} PRIVATE ${ARG_LINK} tidemill_commands tidemill_flags)
  set_target_properties(tidemill-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/libexec/tidemill)
endfunction()

# tidemill_kernels(PREFIX [flags...]): PREFIX_plain.cc, PREFIX_avx2.cc and PREFIX_avx512.cc are one text
# compiled for three machines; which of them runs is decided at run time.
function(tidemill_kernels prefix)
  set(flags -O3 -ffp-contract=fast -fno-math-errno ${ARGN})
  set(avx2)
  set(avx512)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
    set(avx2 -mavx2 -mfma)
    set(avx512 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512)
  endif()
  set_source_files_properties(${prefix}_plain.cc PROPERTIES COMPILE_OPTIONS "${flags}")
  set_source_files_properties(${prefix}_avx2.cc PROPERTIES COMPILE_OPTIONS "${flags};${avx2}")
  set_source_files_properties(${prefix}_avx512.cc PROPERTIES COMPILE_OPTIONS "${flags};${avx512}")
endfunction()
