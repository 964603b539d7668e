# Kernels (.cu) as C++ for the emulation in this folder.
#
# escalier_cuda_kernels_emulated(<name> SOURCES … [OPTIONS compile options…])
# A static library of .cu files compiled by the C++ compiler as they stand. Call it from a folder that has no
# nvcc target over the same files: the language of a source file is set per folder.
function(escalier_cuda_kernels_emulated name)
  cmake_parse_arguments(ARG "" "" "SOURCES;OPTIONS" ${ARGN})
  set_source_files_properties(${ARG_SOURCES} PROPERTIES LANGUAGE CXX)
  add_library(${name} STATIC ${ARG_SOURCES})
  # Unroll pragmas are for nvcc. g++ does not see that a register is loaded and used under the same condition.
  target_compile_options(${name} PRIVATE -Wno-unknown-pragmas -Wno-psabi -Wno-maybe-uninitialized ${ARG_OPTIONS})
  target_link_libraries(${name} PUBLIC escalier_cuda_emulation escalier_core)
endfunction()
