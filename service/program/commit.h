// Which sources the server was built from.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMIT_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMIT_H_

namespace packhouse {

// The commit's first 12 digits, with "-dirty" after them if files had been changed since;
// "unknown" if the sources were in no repository. commit.cmake writes its definition.
extern const char* const kCommit;

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMIT_H_
