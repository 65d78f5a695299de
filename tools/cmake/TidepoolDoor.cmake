# The driver door: exported driver symbols, dlsym and cuGetProcAddress, in front of whatever program the library is
# preloaded into. libtidepool.so goes in by it, and so does what counts calls at the very same place (tools/probe).
#
#   tp_add_door_library(<name> SOURCES <file>... [LIBS <lib>...])
#     A shared library of the door's own sources and the given ones, which hold what the door asks for: a handler
#     for each row of hooks.def, handle_dlsym(), handle_unknown() and the functions of shim/process.h. It exports
#     the rows of hooks.def and dlsym in both of its versions, and needs libc, libm and ld-linux alone.

include_guard(GLOBAL)

# Writes the version script that exports the door, and puts its path into `out`. What it does not name is exported
# if the sources say so: the functions of runtime_hooks.def, without a version, so that they serve programs that ask
# for any version of libcudart's. All else is hidden by the compiler, but for what C++'s own headers make visible.
function(tp_private_door_map out)
  set(exports "")
  file(STRINGS ${PROJECT_SOURCE_DIR}/shim/hooks.def rows REGEX "^TP_HOOK")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shim/hooks.def)
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^TP_HOOK(_PTSZ|_PTDS)?\\(([A-Za-z0-9_]+)" _ "${row}")
    string(TOLOWER "${CMAKE_MATCH_1}" twin)
    string(APPEND exports "    ${CMAKE_MATCH_2};\n")
    if(twin)
      string(APPEND exports "    ${CMAKE_MATCH_2}${twin};\n")
    endif()
  endforeach()
  set(map ${CMAKE_CURRENT_BINARY_DIR}/tidepool.map)
  file(CONFIGURE OUTPUT ${map} @ONLY CONTENT
"TIDEPOOL_1 {
  global:
@exports@  local: _*; tp_*;
};
GLIBC_2.2.5 { };
GLIBC_2.34 { };
")
  set(${out} ${map} PARENT_SCOPE)
endfunction()

function(tp_add_door_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  tp_private_door_map(map)
  add_library(${name} SHARED
    ${PROJECT_SOURCE_DIR}/shim/dlsym_door.cpp
    ${PROJECT_SOURCE_DIR}/shim/hook_table.cpp
    ${PROJECT_SOURCE_DIR}/shim/lookup.cpp
    ${PROJECT_SOURCE_DIR}/shim/real_driver.cpp
    ${PROJECT_SOURCE_DIR}/shim/unknown_entry.cpp
    ${arg_SOURCES})
  tp_target(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF LINK_DEPENDS ${map})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/shim/dlsym_door.cpp PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all")
  # Nothing of the C++ runtime may be pulled in or put in front of the program's own: libc, libm and ld-linux
  # are all such a library needs.
  target_link_options(${name} PRIVATE
    -static-libstdc++ -static-libgcc
    -Wl,-z,now -Wl,-z,nodelete -Wl,--exclude-libs,ALL
    -Wl,--version-script=${map})
  if(NOT TP_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
