# Read by ctest, once for each Catch2 program: asks the program for its test cases and declares one ctest each.
# The list is kept beside the program and asked for again when the program is newer, so that starting ctest
# does not start every program every time.
#
# In: tp_program, tp_prefix, tp_name, tp_labels, tp_without (cases to leave out, as a
# Catch2 test specification), tp_timeout, tp_cost, tp_serial, tp_environment (TidepoolTests.cmake).

cmake_policy(VERSION 3.25) # ctest starts without one

if(NOT EXISTS "${tp_program}")
  # Not built (a sanitizer run builds only what its labels need): fails if it is asked for, and says why.
  add_test("${tp_prefix}.${tp_name} is built" "${tp_program}")
  set_tests_properties("${tp_prefix}.${tp_name} is built" PROPERTIES LABELS "${tp_labels}")
  return()
endif()

set(tp_list_file "${tp_program}.cases")
if(NOT EXISTS "${tp_list_file}" OR "${tp_program}" IS_NEWER_THAN "${tp_list_file}")
  # Catch2 2.x returns the number of cases, so only a signal (a word) or nothing on stdout is a failure; nothing is
  # right where this build leaves out every case.
  execute_process(COMMAND "${tp_program}" --list-test-names-only ${tp_without}
    OUTPUT_VARIABLE tp_output ERROR_VARIABLE tp_errors RESULT_VARIABLE tp_result)
  if(NOT tp_result MATCHES "^[0-9]+$" OR (tp_output STREQUAL "" AND "${tp_without}" STREQUAL ""))
    message(FATAL_ERROR "${tp_program} did not list its test cases: ${tp_result} ${tp_errors}")
  endif()
  file(WRITE "${tp_list_file}" "${tp_output}")
endif()

file(STRINGS "${tp_list_file}" tp_cases)
foreach(tp_case IN LISTS tp_cases)
  # Catch2 reads commas and brackets in a test specification.
  string(REGEX REPLACE "([],[\\])" "\\\\\\1" tp_spec "${tp_case}")
  set(tp_test "${tp_prefix}.${tp_case}")
  add_test("${tp_test}" "${tp_program}" "${tp_spec}")
  set_tests_properties("${tp_test}" PROPERTIES LABELS "${tp_labels}" TIMEOUT "${tp_timeout}"
    COST "${tp_cost}" ENVIRONMENT "${tp_environment}")
  if("data" IN_LIST tp_labels AND "$ENV{TIDEPOOL_TEST_DATA}" STREQUAL "")
    set_tests_properties("${tp_test}" PROPERTIES DISABLED ON)
  endif()
  if(tp_serial)
    set_tests_properties("${tp_test}" PROPERTIES RUN_SERIAL ON)
  endif()
endforeach()
