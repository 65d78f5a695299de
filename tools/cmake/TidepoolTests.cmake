# How tests are declared. Two functions:
#
#   tp_add_test(<name> LABELS <label>... SOURCES <file>... [LIBS <lib>...] [PREFIX <prefix>]
#               [ENVIRONMENT <VAR=value>...] [TIMEOUT <seconds>] [COST <seconds>] [SERIAL] [ONE_THREAD] [UNSANITIZED])
#     A Catch2 program. Each TEST_CASE becomes one ctest named "<prefix>.<test case>" (the prefix is the first
#     label unless given); test cases say behaviour ("swap: a block written while it goes out is not lost").
#     The list of cases is read when ctest starts, so nothing is executed by the build.
#     What runs in one thread teaches ThreadSanitizer nothing. Its builds leave out programs with ONE_THREAD or
#     the label unit or fault, and cases with the tag [one-thread]. Cases with the tag [plain] count what no
#     sanitizer changes; only builds without one have them.
#     UNSANITIZED: the program only starts others; tp_target says what follows.
#
#   tp_add_command_test(<name> LABELS <label>... COMMAND <program> [<arg>...] [PRELOAD <lib>...]
#                       [ENVIRONMENT <VAR=value>...] [TIMEOUT <seconds>] [COST <seconds>] [SERIAL])
#     One ctest from one command; exit code 77 means skipped. PRELOAD sets LD_PRELOAD to the given libraries,
#     behind the sanitizer's run-time where this is a sanitizer build.
#
# COST says about how long one case takes; those that take longest start first, or a core would idle at the end.
# It is needed only for what takes seconds, and only until ctest has measured; SERIAL tests come before all others.
#
# Both give every label its time limit from tp_label_timeout, four times that in sanitizer builds and where nothing
# is optimised. In sanitizer builds they put "asan." or "tsan." before the name, so that one ctest can run the builds
# side by side.
# Tests with the label data need the real inputs that TIDEPOOL_TEST_DATA names; without it they are disabled.
#
# TP_TEST_PRELOAD_FIRST is the run-time library that must come first in LD_PRELOAD (empty without sanitizer).
# Tests that start processes themselves find it in <build>/tests/preload_first (preload_first() of
# tests/process/child_process.h); command tests in the environment variable of the same name.

include_guard(GLOBAL)
find_package(Catch2 2.13 REQUIRED)

set(TP_TEST_PRELOAD_FIRST "")
set(TP_TEST_SANITIZER_ENVIRONMENT "")
set(TP_TEST_NAME_PREFIX "")
set(TP_TEST_CASE_ENVIRONMENT "")
if(TP_SANITIZE MATCHES "address")
  set(TP_TEST_NAME_PREFIX "asan.")
  set(tp_sanitizer_runtime libasan.so)
elseif(TP_SANITIZE MATCHES "thread")
  set(TP_TEST_NAME_PREFIX "tsan.")
  set(tp_sanitizer_runtime libtsan.so)
  # Otherwise each process that ends beside a thread sleeps for a second, in the hope of races then.
  set(TP_TEST_CASE_ENVIRONMENT "TSAN_OPTIONS=atexit_sleep_ms=0")
endif()
if(TP_SANITIZE)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${tp_sanitizer_runtime}
    OUTPUT_VARIABLE tp_sanitizer_path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(REAL_PATH "${tp_sanitizer_path}" TP_TEST_PRELOAD_FIRST)
  # Programs under a preload are not ours and leak as they like; ours are judged by the tests without preload.
  set(TP_TEST_SANITIZER_ENVIRONMENT
    "ASAN_OPTIONS=detect_leaks=0"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=0")
endif()

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/preload_first CONTENT "${TP_TEST_PRELOAD_FIRST}\n")

# Seconds that a test of this label may take (style: the whole label stays far below).
function(tp_label_timeout label out)
  set(seconds_unit 60)
  set(seconds_contract 30)
  set(seconds_sim 60)
  set(seconds_process 60)
  set(seconds_abi 30)
  set(seconds_repo 60)
  set(seconds_lint 900)
  set(seconds_perf 120)
  set(seconds_race 120)
  set(seconds_fault 120)
  set(seconds_fuzz 60)
  set(seconds_golden 60)
  set(seconds_docs 60)
  set(seconds_data 120)
  set(seconds_nightly 1800)
  if(NOT DEFINED seconds_${label})
    message(FATAL_ERROR "tests: unknown label '${label}'; labels are listed in TidepoolTests.cmake")
  endif()
  set(seconds ${seconds_${label}})
  if(TP_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    math(EXPR seconds "4 * ${seconds}")
  endif()
  set(${out} ${seconds} PARENT_SCOPE)
endfunction()

function(tp_private_test_timeout out requested labels)
  if(requested)
    set(${out} ${requested} PARENT_SCOPE)
    return()
  endif()
  set(longest 0)
  foreach(label IN LISTS labels)
    tp_label_timeout(${label} seconds)
    if(seconds GREATER longest)
      set(longest ${seconds})
    endif()
  endforeach()
  set(${out} ${longest} PARENT_SCOPE)
endfunction()

function(tp_private_test_cost out requested serial)
  set(${out} 0 PARENT_SCOPE)
  if(serial)
    set(${out} 1000 PARENT_SCOPE)
  elseif(requested)
    set(${out} ${requested} PARENT_SCOPE)
  endif()
endfunction()

# The main() of every Catch2 program, compiled once, and fast: nothing of it is under test, so it goes without
# optimisation, warnings and sanitizers (the one target that does not call tp_target).
add_library(tp_catch_main STATIC ${PROJECT_SOURCE_DIR}/tests/catch_main.cpp)
target_link_libraries(tp_catch_main PUBLIC Catch2::Catch2)
target_compile_options(tp_catch_main PRIVATE -O0 -g0)
target_compile_definitions(tp_catch_main PUBLIC CATCH_CONFIG_FAST_COMPILE CATCH_CONFIG_DISABLE_MATCHERS)

# Half of a test's compile time went into the same headers. They are compiled once in each build, as part of a program
# that nobody runs. Tests with another level of optimisation compile them themselves: gcc 12 takes what was compiled
# with another one, and then fails.
set(tp_test_level -O1)
if(TP_SANITIZE MATCHES "address")
  set(tp_test_level -O0)
endif()
add_executable(tp_test_headers EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/catch_main.cpp)
target_link_libraries(tp_test_headers PRIVATE tp_catch_main)
tp_target(tp_test_headers)
target_compile_options(tp_test_headers PRIVATE ${tp_test_level})
target_precompile_headers(tp_test_headers PRIVATE
  <algorithm> <array> <atomic> <catch2/catch.hpp> <chrono> <condition_variable> <cstdint> <cstdio> <cstdlib> <cstring>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <sstream> <string> <string_view>
  <thread> <unordered_map> <utility> <variant> <vector>)

function(tp_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL;ONE_THREAD;UNSANITIZED" "TIMEOUT;COST;PREFIX"
    "LABELS;SOURCES;LIBS;ENVIRONMENT")
  if(NOT arg_LABELS OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tp_add_test(${name}): LABELS and SOURCES are needed; unknown: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(without "")
  if(TP_SANITIZE)
    # A filter that only leaves out would take in the hidden cases.
    set(without "~[.]~[plain]")
  endif()
  if(TP_SANITIZE STREQUAL "thread")
    if(arg_ONE_THREAD OR arg_LABELS MATCHES "^(unit|fault)$")
      return()
    endif()
    string(APPEND without "~[one-thread]")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tp_catch_main ${arg_LIBS})
  set(unsanitized "")
  if(arg_UNSANITIZED)
    set(unsanitized UNSANITIZED)
  endif()
  tp_target(${name} ${unsanitized})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # The cases themselves are compiled fast. What they test is in libraries, or has an absolute path here; but its
  # inline functions are compiled with them, and races need those as fast as they are shipped.
  set(level ${tp_test_level})
  if(arg_UNSANITIZED)
    set(level -O0)
  elseif("race" IN_LIST arg_LABELS AND NOT TP_SANITIZE MATCHES "address")
    set(level "")
  endif()
  foreach(source IN LISTS arg_SOURCES)
    if(IS_ABSOLUTE ${source})
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    else()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${level}")
    endif()
  endforeach()
  # Nor does it help what is compiled alike in all builds: that, ccache has already.
  if(level STREQUAL tp_test_level AND NOT arg_UNSANITIZED)
    target_precompile_headers(${name} REUSE_FROM tp_test_headers)
  endif()

  tp_private_test_timeout(timeout "${arg_TIMEOUT}" "${arg_LABELS}")
  set(prefix "${arg_PREFIX}")
  if(NOT prefix)
    list(GET arg_LABELS 0 prefix)
  endif()
  tp_private_test_cost(cost "${arg_COST}" "${arg_SERIAL}")
  set(include_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_cases.cmake)
  file(GENERATE OUTPUT ${include_file} CONTENT
"set(tp_program [==[$<TARGET_FILE:${name}>]==])
set(tp_prefix [==[${TP_TEST_NAME_PREFIX}${prefix}]==])
set(tp_name [==[${name}]==])
set(tp_labels [==[${arg_LABELS}]==])
set(tp_without [==[${without}]==])
set(tp_timeout ${timeout})
set(tp_cost ${cost})
set(tp_serial $<BOOL:${arg_SERIAL}>)
set(tp_environment [==[${TP_TEST_CASE_ENVIRONMENT};${arg_ENVIRONMENT}]==])
include([==[${PROJECT_SOURCE_DIR}/tools/cmake/TidepoolTestCases.cmake]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include_file})
endfunction()

function(tp_add_command_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT;COST" "LABELS;COMMAND;PRELOAD;ENVIRONMENT")
  if(NOT arg_LABELS OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR
      "tp_add_command_test(${name}): LABELS and COMMAND are needed; unknown: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  tp_private_test_timeout(timeout "${arg_TIMEOUT}" "${arg_LABELS}")
  tp_private_test_cost(cost "${arg_COST}" "${arg_SERIAL}")
  set(environment ${TP_TEST_SANITIZER_ENVIRONMENT} ${arg_ENVIRONMENT}
    "TP_TEST_PRELOAD_FIRST=${TP_TEST_PRELOAD_FIRST}")
  if(arg_PRELOAD)
    list(JOIN arg_PRELOAD ":" preload)
    if(TP_TEST_PRELOAD_FIRST)
      string(PREPEND preload "${TP_TEST_PRELOAD_FIRST}:")
    endif()
    list(APPEND environment "LD_PRELOAD=${preload}")
  endif()
  set(name ${TP_TEST_NAME_PREFIX}${name})
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${timeout} COST ${cost}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
