#include "service/base/command_line/exit_code.h"

#include <cerrno>
#include <iostream>
#include <string>

#include "service/base/command_line/readable.h"

namespace packhouse {

const char* ProgramName() {
  static const std::string& name = *new std::string([] {
    const std::string all = program_invocation_short_name;
    return all.substr(0, all.find(' '));
  }());
  return name.c_str();
}

ExitCode Fail(const absl::Status& status) {
  std::cerr << ProgramName() << ": " << Readable(status.message()) << " ["
            << absl::StatusCodeToString(status.code()) << "]\n";
  return kExitFailure;
}

ExitCode Misuse(const absl::Status& status) {
  std::cerr << ProgramName() << ": " << Readable(status.message())
            << "\nRun with --help for the options.\n";
  return kExitUsage;
}

}  // namespace packhouse
