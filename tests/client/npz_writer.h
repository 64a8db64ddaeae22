// Writes .npy and .npz files for tests, also ones that numpy would not.
#ifndef PACKHOUSE_TESTS_CLIENT_NPZ_WRITER_H_
#define PACKHOUSE_TESTS_CLIENT_NPZ_WRITER_H_

#include <zip.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cpp/little_endian.h"
#include "gtest/gtest.h"
#include "tests/support/npy_text.h"

namespace packhouse::client {

// A .npy file; `shape` as in Python: `(3,)`, `(2, 5)`.
template <typename T>
std::string NpyFile(absl::string_view descr, absl::string_view shape,
                    const std::vector<T>& elements) {
  std::string file = NpyHeaderOf(
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }"));
  AppendLittleEndian(absl::MakeConstSpan(elements), file);
  return file;
}

// Names with `.npy`, and contents, in order.
using NpzEntries = std::vector<std::pair<std::string, std::string>>;

inline void WriteNpz(const std::string& path, const NpzEntries& entries) {
  int error = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, content] : entries) {
    zip_source_t* const source =
        zip_source_buffer(archive, content.data(), content.size(), /*freep=*/0);
    ASSERT_GE(zip_file_add(archive, name.c_str(), source, 0), 0);
  }
  // Reads the contents only now.
  ASSERT_EQ(zip_close(archive), 0);
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_TESTS_CLIENT_NPZ_WRITER_H_
