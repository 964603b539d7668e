# The CUDA backend as a library of its own, lib/libescalier_cuda.so, which train/cuda_plugin.cpp opens. Its host code is
# compiled once; the emulation in tests/cuda_emulation links the very same objects.
#
# escalier_cuda_runtime: device and transports.
if(NOT ESCALIER_CUDA_FOUND)
  return()
endif()

add_library(escalier_cuda_runtime OBJECT
  lib/device/cuda_device.cpp lib/device/cuda_devices.cpp
  lib/comm/nccl_channel.cpp lib/comm/nccl_communicator.cpp lib/comm/nccl_handle.cpp lib/comm/nccl_sum.cpp
  lib/comm/nccl_transport.cpp lib/comm/staged_channel.cpp lib/comm/staged_communicator.cpp lib/comm/staged_reduce.cpp
  lib/comm/staged_transport.cpp)
target_link_libraries(escalier_cuda_runtime PUBLIC escalier_comm escalier_cuda_headers)
