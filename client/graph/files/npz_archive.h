// The arrays of a .npz file: a zip archive of .npy files, read as streams.
#ifndef PACKHOUSE_CLIENT_GRAPH_FILES_NPZ_ARCHIVE_H_
#define PACKHOUSE_CLIENT_GRAPH_FILES_NPZ_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/graphs/files/npy_header.h"

// libzip's, which only the implementation sees.
struct zip;
struct zip_file;

namespace packhouse::client {

// One array as the archive has it.
struct NpzArray {
  // Without `.npy`.
  std::string name;
  NpyHeader header;
  // Place in the archive.
  uint64_t index = 0;
  // Checksum of the whole .npy file, from the archive's directory; CheckArrays compares it with the
  // content.
  uint32_t crc = 0;
};

// The elements of one array, in order. Not thread-safe; streams of one archive must not be used at
// the same time either.
class NpzStream {
 public:
  NpzStream(NpzStream&&) noexcept;
  ~NpzStream();

  // Reads exactly `size` bytes and appends them to `bytes`.
  //
  // Errors: DATA_LOSS naming file and array if the array ends too early, or its compressed data is
  // broken. Memory grows with the bytes that are there, not with what a header claims.
  absl::Status Append(uint64_t size, std::string& bytes);
  absl::Status Skip(uint64_t size);

 private:
  friend class NpzArchive;
  struct FileCloser {
    void operator()(zip_file* file) const;
  };
  NpzStream(std::string place, std::unique_ptr<zip_file, FileCloser> file);
  // Up to `size` bytes; 0 at the end.
  absl::StatusOr<std::size_t> Read(char* bytes, uint64_t size);

  // `FILE: array 'NAME'`, for messages.
  std::string place_;
  std::unique_ptr<zip_file, FileCloser> file_;
};

// An open archive. Not thread-safe. Streams must not outlive it.
class NpzArchive {
 public:
  // Opens a file and reads the header of each array.
  //
  // Errors: NOT_FOUND if there is no such file; INVALID_ARGUMENT naming file and array if the file
  // is no zip archive, an entry is no .npy file (see ParseNpyHeader), a name comes twice, or an
  // entry's length differs from its header's; DATA_LOSS if compressed data is broken.
  static absl::StatusOr<std::unique_ptr<NpzArchive>> Open(const std::string& path);

  NpzArchive(const NpzArchive&) = delete;
  NpzArchive& operator=(const NpzArchive&) = delete;
  ~NpzArchive();

  const std::string& path() const { return path_; }
  // In the order of the archive's directory, as numpy lists them.
  const std::vector<NpzArray>& arrays() const { return arrays_; }
  // Null if there is none.
  const NpzArray* Find(absl::string_view name) const;

  // A stream of the array's elements. Any number of streams may be open.
  absl::StatusOr<NpzStream> OpenStream(const NpzArray& array) const;

  // Reads everything once, and checks lengths and checksums. Errors: DATA_LOSS naming file and
  // array.
  absl::Status CheckArrays() const;

  // `FILE: array 'NAME'`, for messages.
  std::string Place(const NpzArray& array) const;

 private:
  struct ArchiveCloser {
    void operator()(zip* archive) const;
  };
  NpzArchive(std::string path, std::unique_ptr<zip, ArchiveCloser> archive);
  absl::Status AddArray(uint64_t index);
  absl::StatusOr<NpzStream> OpenEntry(uint64_t index, std::string place) const;

  const std::string path_;
  const std::unique_ptr<zip, ArchiveCloser> archive_;
  std::vector<NpzArray> arrays_;
};

// Whether a file begins like a zip archive. False if it cannot be read.
bool IsZipArchive(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_FILES_NPZ_ARCHIVE_H_
