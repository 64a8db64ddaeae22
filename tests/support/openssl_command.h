// Keys and certificates as operators make them: by the openssl command.
#ifndef PACKHOUSE_TESTS_SUPPORT_OPENSSL_COMMAND_H_
#define PACKHOUSE_TESTS_SUPPORT_OPENSSL_COMMAND_H_

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace packhouse {

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void WriteText(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline void Openssl(const std::string& arguments) {
  ASSERT_EQ(std::system(absl::StrCat("openssl ", arguments, " >/dev/null 2>&1").c_str()), 0)
      << arguments;
}

// Makes FOLDER/NAME.key and a FOLDER/NAME.crt of its own, for `days` from now on.
inline void MakeCertificate(const std::string& folder, const std::string& name, int days = 10) {
  Openssl(absl::StrCat("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=",
                       name, " -addext subjectAltName=DNS:", name, " -days ", days, " -keyout ",
                       folder, "/", name, ".key -out ", folder, "/", name, ".crt"));
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_OPENSSL_COMMAND_H_
