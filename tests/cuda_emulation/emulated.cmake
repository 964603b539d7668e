# Kernels (.cu) as C++ for the emulation in this folder.
#
# escalier_cuda_kernels_emulated(<name> SOURCES … [OPTIONS compile options…] [RACES])
# A static library of .cu files compiled by the C++ compiler as they stand; with RACES the thread sanitizer watches
# them. Call it from a folder that has no nvcc target over the same files: the language of a source file is set per
# folder.
function(escalier_cuda_kernels_emulated name)
  cmake_parse_arguments(ARG "RACES" "" "SOURCES;OPTIONS" ${ARGN})
  set_source_files_properties(${ARG_SOURCES} PROPERTIES LANGUAGE CXX)
  add_library(${name} STATIC ${ARG_SOURCES})
  # Unroll pragmas are for nvcc, in headers too that tests include. g++ does not see that a register is loaded and used
  # under the same condition.
  target_compile_options(${name} PUBLIC -Wno-unknown-pragmas PRIVATE -Wno-psabi -Wno-maybe-uninitialized ${ARG_OPTIONS})
  if(ARG_RACES)
    target_compile_options(${name} PRIVATE -fsanitize=thread -g1)
    target_link_libraries(${name} PUBLIC escalier_cuda_emulation_races)
  else()
    target_link_libraries(${name} PUBLIC escalier_cuda_emulation)
  endif()
  target_link_libraries(${name} PUBLIC escalier_core)
endfunction()

# The emulation itself. The thread sanitizer watches kernels alone, and hears from the emulation what is ordered.
function(escalier_cuda_emulation_library name)
  add_library(${name} STATIC block.cpp fiber.cpp instructions.cpp static_shared.cpp warp.cpp
              shims/capture.cpp shims/cublaslt.cpp shims/device.cpp shims/dropped_waits.cpp shims/memory.cpp shims/queue.cpp shims/streams.cpp)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PUBLIC escalier_flags escalier_cuda_headers ${CMAKE_DL_LIBS})
endfunction()
