// Ends the build with an error where the contract does not say which right a method, or what a text
// of its request names, needs.
#include <cstdlib>
#include <iostream>

#include "service/server/calls/request_rights.h"

int main() {
  int status = EXIT_SUCCESS;
  for (const packhouse::MethodRights& row : packhouse::AllMethodRights()) {
    if (row.is_sound) continue;
    std::cerr << row.method
              << ": needs (call_right), and each text of its request (thing): rights.proto\n";
    status = EXIT_FAILURE;
  }
  return status;
}
