#include "client/graph/files/npz_archive.h"

#include <zip.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace packhouse::client {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

std::string PlaceOf(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ": array '", absl::CHexEscape(name), "'");
}

}  // namespace

void NpzStream::FileCloser::operator()(zip_file* file) const { zip_fclose(file); }

NpzStream::NpzStream(std::string place, std::unique_ptr<zip_file, FileCloser> file)
    : place_(std::move(place)), file_(std::move(file)) {}
NpzStream::NpzStream(NpzStream&&) noexcept = default;
NpzStream::~NpzStream() = default;

absl::StatusOr<std::size_t> NpzStream::Read(char* bytes, uint64_t size) {
  const zip_int64_t read = zip_fread(file_.get(), bytes, size);
  if (read < 0) {
    return absl::DataLossError(
        absl::StrCat(place_, ": cannot read: ", zip_file_strerror(file_.get())));
  }
  return static_cast<std::size_t>(read);
}

absl::Status NpzStream::Append(uint64_t size, std::string& bytes) {
  while (size > 0) {
    const uint64_t piece = std::min(size, kPieceBytes);
    const std::size_t begin = bytes.size();
    bytes.resize(begin + piece);
    const absl::StatusOr<std::size_t> read = Read(bytes.data() + begin, piece);
    bytes.resize(begin + (read.ok() ? *read : 0));
    if (!read.ok()) return read.status();
    if (*read == 0) return absl::DataLossError(absl::StrCat(place_, ": ends too soon"));
    size -= *read;
  }
  return absl::OkStatus();
}

absl::Status NpzStream::Skip(uint64_t size) {
  std::string ignored;
  while (size > 0) {
    const uint64_t piece = std::min(size, kPieceBytes);
    ignored.clear();
    if (absl::Status status = Append(piece, ignored); !status.ok()) return status;
    size -= piece;
  }
  return absl::OkStatus();
}

void NpzArchive::ArchiveCloser::operator()(zip* archive) const { zip_discard(archive); }

NpzArchive::NpzArchive(std::string path, std::unique_ptr<zip, ArchiveCloser> archive)
    : path_(std::move(path)), archive_(std::move(archive)) {}
NpzArchive::~NpzArchive() = default;

absl::StatusOr<std::unique_ptr<NpzArchive>> NpzArchive::Open(const std::string& path) {
  int error = ZIP_ER_OK;
  std::unique_ptr<zip, ArchiveCloser> archive(zip_open(path.c_str(), ZIP_RDONLY, &error));
  if (archive == nullptr) {
    zip_error_t described;
    zip_error_init_with_code(&described, error);
    const std::string message = absl::StrCat(path, ": ", zip_error_strerror(&described));
    zip_error_fini(&described);
    if (error == ZIP_ER_NOENT || error == ZIP_ER_OPEN || error == ZIP_ER_READ) {
      return absl::NotFoundError(message);
    }
    return absl::InvalidArgumentError(message);
  }
  std::unique_ptr<NpzArchive> npz(new NpzArchive(path, std::move(archive)));
  const zip_int64_t entries = zip_get_num_entries(npz->archive_.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    if (absl::Status status = npz->AddArray(static_cast<uint64_t>(i)); !status.ok()) return status;
  }
  return npz;
}

absl::Status NpzArchive::AddArray(uint64_t index) {
  zip_stat_t entry;
  if (zip_stat_index(archive_.get(), index, 0, &entry) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": entry ", index, ": ", zip_strerror(archive_.get())));
  }
  constexpr auto kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_CRC;
  if ((entry.valid & kNeeded) != kNeeded) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": entry ", index, " has no name, length or checksum"));
  }
  absl::string_view name = entry.name;
  if (!absl::ConsumeSuffix(&name, ".npy")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": entry '", absl::CHexEscape(name), "' is no .npy file"));
  }
  NpzArray array;
  array.name = std::string(name);
  array.index = index;
  array.crc = entry.crc;
  const std::string place = Place(array);
  if (Find(name) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": is there twice"));
  }
  const auto fail = [&place](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
  };

  absl::StatusOr<NpzStream> stream = OpenEntry(index, place);
  if (!stream.ok()) return stream.status();
  std::string header;
  absl::Status read = stream->Append(std::min<uint64_t>(kNpyPrefixBytes, entry.size), header);
  if (!read.ok()) return read;
  const absl::StatusOr<std::size_t> header_bytes = NpyHeaderBytes(header);
  if (!header_bytes.ok()) return fail(header_bytes.status());
  if (*header_bytes > entry.size) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": has a header of ", *header_bytes,
                                                   " bytes, the file has ", entry.size));
  }
  read = stream->Append(*header_bytes - kNpyPrefixBytes, header);
  if (!read.ok()) return read;
  absl::StatusOr<NpyHeader> parsed = ParseNpyHeader(header);
  if (!parsed.ok()) return fail(parsed.status());
  if (entry.size - *header_bytes != parsed->data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": has ", entry.size - *header_bytes,
                                                   " bytes of elements, its header says ",
                                                   parsed->data_bytes));
  }
  array.header = *std::move(parsed);
  arrays_.push_back(std::move(array));
  return absl::OkStatus();
}

const NpzArray* NpzArchive::Find(absl::string_view name) const {
  const auto found = std::find_if(arrays_.begin(), arrays_.end(),
                                  [name](const NpzArray& array) { return array.name == name; });
  return found == arrays_.end() ? nullptr : &*found;
}

absl::StatusOr<NpzStream> NpzArchive::OpenEntry(uint64_t index, std::string place) const {
  std::unique_ptr<zip_file, NpzStream::FileCloser> file(zip_fopen_index(archive_.get(), index, 0));
  if (file == nullptr) {
    return absl::DataLossError(
        absl::StrCat(place, ": cannot read: ", zip_strerror(archive_.get())));
  }
  return NpzStream(std::move(place), std::move(file));
}

absl::StatusOr<NpzStream> NpzArchive::OpenStream(const NpzArray& array) const {
  absl::StatusOr<NpzStream> stream = OpenEntry(array.index, Place(array));
  if (!stream.ok()) return stream;
  absl::Status status = stream->Skip(array.header.header_bytes);
  if (!status.ok()) return status;
  return stream;
}

absl::Status NpzArchive::CheckArrays() const {
  std::string piece(kPieceBytes, '\0');
  for (const NpzArray& array : arrays_) {
    absl::StatusOr<NpzStream> stream = OpenEntry(array.index, Place(array));
    if (!stream.ok()) return stream.status();
    // libzip compares length and checksum when it reaches the end.
    uint64_t bytes = 0;
    while (true) {
      const absl::StatusOr<std::size_t> read = stream->Read(piece.data(), piece.size());
      if (!read.ok()) return read.status();
      if (*read == 0) break;
      bytes += *read;
    }
    if (bytes != array.header.header_bytes + array.header.data_bytes) {
      return absl::DataLossError(absl::StrCat(Place(array), ": has ", bytes,
                                              " bytes, its header says ",
                                              array.header.header_bytes + array.header.data_bytes));
    }
  }
  return absl::OkStatus();
}

std::string NpzArchive::Place(const NpzArray& array) const { return PlaceOf(path_, array.name); }

bool IsZipArchive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof(magic));
  const absl::string_view read(magic, static_cast<std::size_t>(file.gcount()));
  // An entry, or the directory of an archive without any.
  return read == "PK\x03\x04" || read == "PK\x05\x06";
}

}  // namespace packhouse::client
