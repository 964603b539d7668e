# Every library the build needs. What is missing is named together with the Debian package that brings it,
# all of it at once, so that one apt-get line mends a fresh machine.

find_package(PkgConfig QUIET)
set(missing_packages "")

macro(escalier_require name package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    list(APPEND missing_packages ${package})
  endif()
endmacro()

escalier_require(MPI libopenmpi-dev COMPONENTS C)
escalier_require(yaml-cpp libyaml-cpp-dev)
escalier_require(CLI11 libcli11-dev)
escalier_require(spdlog libspdlog-dev)
escalier_require(nlohmann_json nlohmann-json3-dev)
escalier_require(Threads libc6-dev)
if(ESCALIER_TESTS)
  escalier_require(GTest libgtest-dev)
endif()

# oneDNN's CMake package pulls OpenCL in on Debian; the plain C interface needs only header and library.
find_path(DNNL_INCLUDE_DIR dnnl.h)
find_library(DNNL_LIBRARY dnnl)
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
  list(APPEND missing_packages libdnnl-dev)
endif()
find_path(XXHASH_INCLUDE_DIR xxhash.h)  # its code stands in the header
if(NOT XXHASH_INCLUDE_DIR)
  list(APPEND missing_packages libxxhash-dev)
endif()
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
if(NOT SENTENCEPIECE_INCLUDE_DIR OR NOT SENTENCEPIECE_LIBRARY)
  list(APPEND missing_packages libsentencepiece-dev)
endif()

find_path(ISAL_INCLUDE_DIR isa-l/crc.h)  # CRC-32C
find_library(ISAL_LIBRARY isal)
if(NOT ISAL_INCLUDE_DIR OR NOT ISAL_LIBRARY)
  list(APPEND missing_packages libisal-dev)
endif()
# prometheus-cpp's CMake package asks for what only its other halves need.
find_path(PROMETHEUS_INCLUDE_DIR prometheus/exposer.h)
find_library(PROMETHEUS_PULL_LIBRARY prometheus-cpp-pull)
find_library(PROMETHEUS_CORE_LIBRARY prometheus-cpp-core)
if(NOT PROMETHEUS_INCLUDE_DIR OR NOT PROMETHEUS_PULL_LIBRARY OR NOT PROMETHEUS_CORE_LIBRARY)
  list(APPEND missing_packages prometheus-cpp-dev)
endif()

if(missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "Missing libraries. Install them with:\n  apt-get install ${missing_packages}\n"
                      "or let scripts/setup do it.")
endif()

add_library(dnnl_c INTERFACE)
target_include_directories(dnnl_c SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl_c INTERFACE ${DNNL_LIBRARY})
add_library(xxhash_header INTERFACE)
target_include_directories(xxhash_header SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
add_library(sentencepiece_lib INTERFACE)
target_include_directories(sentencepiece_lib SYSTEM INTERFACE ${SENTENCEPIECE_INCLUDE_DIR})
target_link_libraries(sentencepiece_lib INTERFACE ${SENTENCEPIECE_LIBRARY})
add_library(isal_lib INTERFACE)
target_include_directories(isal_lib SYSTEM INTERFACE ${ISAL_INCLUDE_DIR})
target_link_libraries(isal_lib INTERFACE ${ISAL_LIBRARY})
add_library(prometheus_pull INTERFACE)
target_include_directories(prometheus_pull SYSTEM INTERFACE ${PROMETHEUS_INCLUDE_DIR})
target_link_libraries(prometheus_pull INTERFACE ${PROMETHEUS_PULL_LIBRARY} ${PROMETHEUS_CORE_LIBRARY})

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
