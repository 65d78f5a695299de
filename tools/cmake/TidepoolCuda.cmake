# The CUDA toolkit gives headers (shim, allocator/cuda, simgpu) and nvcc
# (workloads). Nothing of it is linked except the shared runtime by workloads.

# Not by check_language(): that takes two seconds, to find out what the next lines find out again.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc)
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  message(FATAL_ERROR
    "Tidepool needs the CUDA toolkit 13.0 or newer to build (nvcc was not found). "
    "Install it from the GPU vendor's repository (package cuda-toolkit-13-0), put nvcc "
    "on PATH or set CUDACXX, and configure again. No GPU is needed.")
endif()
# Those of the device profiles. Sanitizer builds have one; programs that tests run on other devices ask for all.
set(TP_CUDA_ARCHITECTURES 75-real 80-real 90)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${TP_CUDA_ARCHITECTURES})
  if(TP_SANITIZE)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)

# tp_cuda_headers: cuda.h and friends, as system headers, without any library.
add_library(tp_cuda_headers INTERFACE)
target_include_directories(tp_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
