// Real sizes and graphs from outside the repository.
#ifndef PACKHOUSE_TESTS_SUPPORT_SHARED_DATA_H_
#define PACKHOUSE_TESTS_SUPPORT_SHARED_DATA_H_

#include <cstdlib>
#include <string>

namespace packhouse {

// The folder that the environment variable PACKHOUSE_SHARED_DATA names. Where it names none, a
// folder that is not there: tests that need its files are skipped.
inline std::string SharedData() {
  const char* const folder = std::getenv("PACKHOUSE_SHARED_DATA");
  return folder == nullptr || *folder == '\0' ? "/no/PACKHOUSE_SHARED_DATA" : folder;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_SHARED_DATA_H_
