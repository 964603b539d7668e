# What the CUDA backend is built with: nvcc, the runtime, cuBLASLt and NCCL. Nothing here needs a GPU or its driver.
#
#   -DESCALIER_CUDA=AUTO   with CUDA where all of it is found, else without (the default)
#   -DESCALIER_CUDA=ON     a missing piece is an error that names it
#   -DESCALIER_CUDA=OFF    without
#   -DCMAKE_CUDA_ARCHITECTURES=90a-real   another list of GPUs than the A100 (80) and the H100/H200 (90a)
#
# Sets ESCALIER_CUDA_FOUND: headers and libraries are there, targets escalier_cuda_headers and escalier_cuda_libraries;
#      ESCALIER_NVCC:       device code is compiled too. Not under the sanitizers, which nvcc's host code does not pass:
#                           there the kernels run on the CPU alone (tests/cuda_emulation).
# The same sentence for whoever configures and for scripts/build, which shows no status lines.
function(escalier_say_cuda sentence)
  message(STATUS "CUDA: ${sentence}")
  file(WRITE ${CMAKE_BINARY_DIR}/cuda.txt "CUDA: ${sentence}\n")
endfunction()

set(ESCALIER_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where it is found), ON or OFF")
set_property(CACHE ESCALIER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(ESCALIER_CUDA_FOUND OFF)
set(ESCALIER_NVCC OFF)
string(TOUPPER "${ESCALIER_CUDA}" cuda_wanted)
if(NOT cuda_wanted MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ESCALIER_CUDA is ${ESCALIER_CUDA}; it takes AUTO, ON or OFF")
endif()
if(cuda_wanted STREQUAL "OFF")
  escalier_say_cuda("not built (ESCALIER_CUDA=OFF)")
  return()
endif()

# 1. Look for every piece, and name all that is missing at once.
set(missing_cuda "")
find_program(ESCALIER_NVCC_PROGRAM nvcc HINTS ENV CUDA_HOME ENV CUDACXX PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT CUDAToolkit_ROOT AND EXISTS "$ENV{CUDA_HOME}/bin/nvcc")
  set(CUDAToolkit_ROOT $ENV{CUDA_HOME})
endif()
if(ESCALIER_NVCC_PROGRAM)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_LESS 12.0)
    list(APPEND missing_cuda "CUDA 12 or later (found ${CUDAToolkit_VERSION})")
  endif()
else()
  list(APPEND missing_cuda "nvcc")
endif()
foreach(library cudart cublasLt)
  if(NOT TARGET CUDA::${library})
    list(APPEND missing_cuda "lib${library}.so")
  endif()
endforeach()
foreach(piece "CUDART cuda_runtime.h" "CUBLASLT cublasLt.h" "NVTX nvtx3/nvToolsExt.h" "NCCL nccl.h")
  separate_arguments(piece)
  list(GET piece 0 name)
  list(GET piece 1 header)
  find_path(${name}_INCLUDE_DIR ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT ${name}_INCLUDE_DIR)
    list(APPEND missing_cuda ${header})
  endif()
endforeach()
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(NOT NCCL_LIBRARY)
  list(APPEND missing_cuda "libnccl.so")
endif()
if(missing_cuda)
  list(JOIN missing_cuda ", " missing_cuda)
  if(cuda_wanted STREQUAL "ON")
    message(FATAL_ERROR "ESCALIER_CUDA is ON, but the CUDA toolkit lacks here: ${missing_cuda}.\n"
                        "Name its folder with CUDA_HOME=… or build without it: -DESCALIER_CUDA=OFF")
  endif()
  escalier_say_cuda("not built, for want of ${missing_cuda}")
  return()
endif()

# 2. Headers for host code, and libraries for what is opened on a machine with GPUs. CUDA::cuda_driver is never linked:
#    a program that names libcuda.so.1 does not start where there is no driver.
set(ESCALIER_CUDA_FOUND ON)
add_library(escalier_cuda_headers INTERFACE)
target_include_directories(escalier_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${NVTX_INCLUDE_DIR}
                           ${NCCL_INCLUDE_DIR})
add_library(escalier_cuda_libraries INTERFACE)
target_link_libraries(escalier_cuda_libraries INTERFACE CUDA::cudart CUDA::cublasLt ${NCCL_LIBRARY} ${CMAKE_DL_LIBS})
if(ESCALIER_SANITIZE)
  escalier_say_cuda("${CUDAToolkit_VERSION}, emulated alone (nvcc's objects are left out under the sanitizers)")
  return()
endif()

# 3. The compiler. CMake 3.25 does not know that nvcc takes C++20, hence the two options; the runtime is the shared one
#    throughout, else two copies of it would be linked.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${ESCALIER_NVCC_PROGRAM})
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(ESCALIER_NVCC ON)
list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
escalier_say_cuda("${CUDAToolkit_VERSION} for ${architectures}")

# Flags of nvcc's targets. Every warning of compiler, assembler and host compiler is an error. What ptxas reports of a
# kernel (registers, shared memory, spills) is kept beside the object, OBJECT.ptxas, for scripts/ptxas_report.
add_library(escalier_cuda_flags INTERFACE)
target_compile_options(escalier_cuda_flags INTERFACE
  -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror --expt-relaxed-constexpr -lineinfo -Xptxas=-v)
target_include_directories(escalier_cuda_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR})

# escalier_nvcc_library(<name> SOURCES ….cu): a static library of kernels.
function(escalier_nvcc_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC escalier_cuda_flags escalier_cuda_headers)
  set_target_properties(${name} PROPERTIES CUDA_COMPILER_LAUNCHER
                        "${CMAKE_SOURCE_DIR}/scripts/keep_ptxas_report;${CCACHE_PROGRAM}")
endfunction()
