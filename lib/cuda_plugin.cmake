# The CUDA backend as a library of its own, lib/libescalier_cuda.so, which train/cuda_plugin.cpp opens. Its host code is
# compiled once; the emulation in tests/cuda_emulation links the very same objects.
#
# escalier_cuda_runtime: device and transports; escalier_cuda_entry: what the library offers.
if(NOT ESCALIER_CUDA_FOUND)
  return()
endif()

add_library(escalier_cuda_runtime OBJECT
  lib/device/cuda_device.cpp lib/device/cuda_devices.cpp
  lib/comm/nccl_channel.cpp lib/comm/nccl_communicator.cpp lib/comm/nccl_handle.cpp lib/comm/nccl_sum.cpp
  lib/comm/nccl_transport.cpp lib/comm/staged_channel.cpp lib/comm/staged_communicator.cpp lib/comm/staged_reduce.cpp
  lib/comm/staged_transport.cpp)
target_link_libraries(escalier_cuda_runtime PUBLIC escalier_comm escalier_cuda_headers)

add_library(escalier_cuda_entry OBJECT lib/train/cuda_backend.cpp)
target_link_libraries(escalier_cuda_entry PUBLIC escalier_train escalier_cuda_headers)

# escalier_cuda_plugin(<name> LIBRARIES kernels and CUDA's libraries…)
function(escalier_cuda_plugin name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  add_library(${name} MODULE $<TARGET_OBJECTS:escalier_cuda_runtime> $<TARGET_OBJECTS:escalier_cuda_entry>)
  target_link_libraries(${name} PRIVATE escalier_train ${ARG_LIBRARIES})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  # What is not there must fail here, not on a machine with GPUs.
  target_link_options(${name} PRIVATE -Wl,--no-undefined)
endfunction()

if(TARGET escalier_kernels_cuda)
  escalier_cuda_plugin(escalier_cuda LIBRARIES escalier_kernels_cuda escalier_cuda_libraries)
endif()
