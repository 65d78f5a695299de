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
# The module of CMake 3.25.1 (Debian 12) marks CUDA::nvToolsExt as deprecated for projects that ask for CMake 3.25, also
# where there is none, as in toolkit 13, and then stops. It looks at this variable alone.
set(minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
find_package(CUDAToolkit 13.0 REQUIRED)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${minimum})

# tp_cuda_headers: cuda.h and friends, as system headers, without any library.
add_library(tp_cuda_headers INTERFACE)
target_include_directories(tp_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})

# tp_cuda_image(<out> <source> SYMBOL <name> [INCLUDE <folder>...]): a fat binary of one .cu file, for a library or
# program that carries its kernels and loads them itself: code for each of CMAKE_CUDA_ARCHITECTURES, and PTX where it
# asks for it. Puts into <out> the path of a source file that holds it under the hidden symbol <name>; add that to a
# target's sources. The file has the image's checksum, so that a compiler cache sees when the image has changed.
function(tp_cuda_image out source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SYMBOL" "INCLUDE")
  # -gencode options as CMake makes them of CMAKE_CUDA_ARCHITECTURES: code for each, PTX unless it says -real.
  set(codes "")
  foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
    string(REGEX REPLACE "-.*" "" number ${architecture})
    if(NOT architecture MATCHES "-virtual$")
      list(APPEND codes -gencode arch=compute_${number},code=sm_${number})
    endif()
    if(NOT architecture MATCHES "-real$")
      list(APPEND codes -gencode arch=compute_${number},code=compute_${number})
    endif()
  endforeach()
  set(folders -I${PROJECT_SOURCE_DIR})
  foreach(folder IN LISTS arg_INCLUDE)
    list(APPEND folders -I${folder})
  endforeach()
  get_filename_component(name ${source} NAME_WE)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  add_custom_command(OUTPUT ${image}
    COMMAND ${CMAKE_CUDA_COMPILER} -fatbin -std=c++17 ${codes} ${folders} -MD -MT ${image} -MF ${image}.d
      -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source} DEPFILE ${image}.d COMMENT "Building CUDA fat binary ${image}" VERBATIM)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${name}_image.cpp)
  set(script ${PROJECT_SOURCE_DIR}/tools/cmake/WriteImageSource.cmake)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DIMAGE=${image} -DSYMBOL=${arg_SYMBOL} -DOUT=${embedded} -P ${script}
    DEPENDS ${image} ${script} VERBATIM)
  set(${out} ${embedded} PARENT_SCOPE)
endfunction()
