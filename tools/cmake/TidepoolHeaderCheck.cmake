# Every header of the project compiles on its own. Where x.cpp includes x.h before anything else, as it must, that
# is shown already, unless something precompiled comes before that; for every other header a translation unit is
# made that includes nothing else. Sanitizer builds leave it out; it would only be compiled a second time.

include_guard(GLOBAL)
if(TP_SANITIZE)
  return()
endif()

file(GLOB_RECURSE tp_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/allocator/*.h ${PROJECT_SOURCE_DIR}/shim/*.h ${PROJECT_SOURCE_DIR}/planner/*.h
  ${PROJECT_SOURCE_DIR}/ssd_backend/*.h ${PROJECT_SOURCE_DIR}/tools/*.h ${PROJECT_SOURCE_DIR}/tests/*.h)

set(tp_header_units "")
foreach(header IN LISTS tp_headers)
  string(REGEX REPLACE "\\.h$" ".cpp" source "${PROJECT_SOURCE_DIR}/${header}")
  if(EXISTS "${source}" AND NOT header MATCHES "^(tools/simgpu/driver|tests)/")
    file(STRINGS "${source}" first REGEX "^#include" LIMIT_COUNT 1)
    if(first STREQUAL "#include \"${header}\"")
      continue()
    endif()
  endif()
  string(MAKE_C_IDENTIFIER "${header}" unit)
  set(unit ${CMAKE_BINARY_DIR}/header_check/${unit}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n" @ONLY)
  list(APPEND tp_header_units ${unit})
endforeach()

add_library(tp_header_check OBJECT ${tp_header_units})
target_link_libraries(tp_header_check PRIVATE tp_cuda_headers Catch2::Catch2)
target_include_directories(tp_header_check PRIVATE ${PROJECT_SOURCE_DIR}/tools/simgpu/include)
tp_target(tp_header_check)
# Only the front end matters here.
target_compile_options(tp_header_check PRIVATE -O0 -g0)
