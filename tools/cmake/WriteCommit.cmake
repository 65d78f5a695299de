# Writes the commit of the sources, "unknown" outside a checkout, into a header; only where it has changed.
#   cmake -DOUT=<header> -DSOURCE=<folder> -P WriteCommit.cmake
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#pragma once\n\n#define TP_COMMIT \"${commit}\"\n")
