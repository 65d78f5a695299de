# One place for what every target of this project is built with.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

set(TP_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, 'address,undefined' or 'thread'.")
set_property(CACHE TP_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")
option(TP_WERROR "Treat warnings as errors." ON)

set(TP_SANITIZE_FLAGS "")
if(TP_SANITIZE)
  # One flag each: nvcc cuts what it passes on at commas.
  string(REPLACE "," ";-fsanitize=" TP_SANITIZE_FLAGS "-fsanitize=${TP_SANITIZE}")
  list(APPEND TP_SANITIZE_FLAGS -fno-sanitize-recover=all -fno-omit-frame-pointer)
endif()

# Sanitizer builds compile a library's files in few pieces: they are built often, to run, and never to be looked
# at by a linter. Libraries whose files name different things alike say UNITY_BUILD OFF after tp_target().
#
# tp_target(<target> [UNSANITIZED] [ONE_THREAD]): applies warnings and sanitizers. Every target calls it.
#   UNSANITIZED: is compiled as in the other builds, so that ccache has it already, and only linked with the run
#   time of the sanitizer, which the libraries it links may need. For what runs beside the code under test: it
#   starts programs and reads what they say.
#   ONE_THREAD: the same, but for ThreadSanitizer alone, whom it cannot teach anything.
function(tp_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNSANITIZED;ONE_THREAD" "" "")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tp_target(${target}): unknown: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(sanitized FALSE)
  if(TP_SANITIZE AND NOT arg_UNSANITIZED AND NOT (arg_ONE_THREAD AND TP_SANITIZE STREQUAL "thread"))
    set(sanitized TRUE)
  endif()
  set(flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast)
  if(TP_WERROR)
    list(APPEND flags -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # At -O3 it is wrong in the standard library's own headers: '"text" + name' is enough (gcc bug 105651).
    list(APPEND flags $<$<CONFIG:Release>:-Wno-restrict>)
  endif()
  if(sanitized)
    # The instrumentation hides assignments from this warning: it is wrong in the standard library's own headers.
    list(APPEND flags -Wno-maybe-uninitialized -O1)
  endif()
  foreach(flag IN LISTS flags)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  endforeach()
  foreach(flag IN LISTS TP_SANITIZE_FLAGS)
    if(sanitized)
      target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:${flag}>
        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
    endif()
    target_link_options(${target} PRIVATE
      $<$<LINK_LANGUAGE:CXX>:${flag}>
      $<$<LINK_LANGUAGE:CUDA>:${flag}>) # the host compiler links CUDA programs too
  endforeach()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  get_target_property(type ${target} TYPE)
  if(sanitized AND type MATCHES "LIBRARY")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
endfunction()
