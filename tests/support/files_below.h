// What is in a folder.
#ifndef PACKHOUSE_TESTS_SUPPORT_FILES_BELOW_H_
#define PACKHOUSE_TESTS_SUPPORT_FILES_BELOW_H_

#include <filesystem>
#include <fstream>
#include <ios>
#include <map>
#include <string>

namespace packhouse {

// Everything below a folder: paths, and the bytes of files.
inline std::map<std::string, std::string> FilesBelow(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::string& bytes = files[entry.path().string().substr(folder.size() + 1)];
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.resize(entry.file_size());
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  return files;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FILES_BELOW_H_
