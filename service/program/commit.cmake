# Writes OUTPUT, the definition of kCommit (commit.h): COMMIT, or if it is empty what git says of
# FOLDER. Leaves a file alone that is right already, so that nothing is built again.
if(NOT COMMIT)
  execute_process(
    COMMAND git -C ${FOLDER} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
// Made by commit.cmake.
#include "service/program/commit.h"

namespace packhouse {

const char* const kCommit = "@COMMIT@";

}  // namespace packhouse
]] @ONLY)
