#include "client/graph/tfgnn/tfrecord_files.h"

#include <glob.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr uint32_t kMaxShards = 99'999;

// The shards of `base@N`; empty if the name is not of that form.
absl::StatusOr<std::vector<std::string>> ShardsOf(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos || name.find('/', at) != std::string::npos) {
    return std::vector<std::string>();
  }
  uint32_t shards = 0;
  if (!absl::SimpleAtoi(name.substr(at + 1), &shards) || shards == 0 || shards > kMaxShards) {
    return absl::InvalidArgumentError(absl::StrCat("'", name,
                                                   "': after the @ there must be the "
                                                   "number of shards, from 1 to ",
                                                   kMaxShards));
  }
  std::vector<std::string> names;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    names.push_back(absl::StrFormat("%s-%05d-of-%05d", name.substr(0, at), shard, shards));
  }
  return names;
}

// By its name, also that of a shard: `x.gz-00000-of-00002`.
bool IsCompressed(const std::string& path) {
  return absl::EndsWith(path, ".gz") || absl::StrContains(path, ".gz-");
}

std::string ErrnoText() { return std::strerror(errno); }

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& pattern) {
  std::error_code error;
  // A file may be called anything.
  if (std::filesystem::exists(pattern, error)) return std::vector<std::string>{pattern};
  absl::StatusOr<std::vector<std::string>> shards = ShardsOf(pattern);
  if (!shards.ok()) return shards.status();
  for (const std::string& shard : *shards) {
    if (!std::filesystem::exists(shard, error)) {
      return absl::NotFoundError(absl::StrCat("'", pattern, "': ", shard, " is not there"));
    }
  }
  if (!shards->empty()) return shards;
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  if (paths.empty()) return absl::NotFoundError(absl::StrCat("'", pattern, "': no such file"));
  return paths;
}

absl::StatusOr<std::vector<std::string>> FilesToWrite(const std::string& name) {
  absl::StatusOr<std::vector<std::string>> shards = ShardsOf(name);
  if (!shards.ok() || !shards->empty()) return shards;
  return std::vector<std::string>{name};
}

struct TfrecordReader::File {
  File(const std::string& path_of_file, gzFile opened)
      : path(path_of_file), file(opened), records(path_of_file) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { gzclose_r(file); }

  const std::string path;
  // zlib passes uncompressed bytes through.
  const gzFile file;
  tfgnn::RecordReader records;
};

TfrecordReader::TfrecordReader(std::vector<std::string> paths)
    : paths_(std::move(paths)), buffer_(kReadBytes) {}
TfrecordReader::~TfrecordReader() = default;

absl::Status TfrecordReader::Open() {
  const std::string& path = paths_[next_path_++];
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", ErrnoText()));
  gzbuffer(file, static_cast<unsigned>(kReadBytes));
  file_ = std::make_unique<File>(path, file);
  records_of_file_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<bool> TfrecordReader::Feed() {
  const int read = gzread(file_->file, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int error = Z_OK;
  absl::string_view message = gzerror(file_->file, &error);
  if (read < 0 || (error != Z_OK && error != Z_STREAM_END)) {
    const std::string file = absl::StrCat(file_->path, ": ");
    absl::ConsumePrefix(&message, file);  // zlib's messages begin with it.
    return absl::DataLossError(absl::StrCat(file, error == Z_ERRNO ? ErrnoText() : message));
  }
  file_->records.Feed(absl::string_view(buffer_.data(), static_cast<std::size_t>(read)));
  return read > 0;
}

absl::StatusOr<std::optional<absl::string_view>> TfrecordReader::Next() {
  while (true) {
    if (file_ == nullptr) {
      if (next_path_ == paths_.size()) return std::nullopt;
      if (absl::Status status = Open(); !status.ok()) return status;
    }
    absl::StatusOr<std::optional<absl::string_view>> record = file_->records.Next();
    if (!record.ok()) return record;
    if (*record) {
      records_of_file_ = file_->records.num_records();
      return record;
    }
    const absl::StatusOr<bool> more = Feed();
    if (!more.ok()) return more.status();
    if (*more) continue;
    if (absl::Status status = file_->records.Finish(); !status.ok()) return status;
    file_ = nullptr;
  }
}

struct TfrecordWriter::File {
  File(std::string name, gzFile opened) : path(std::move(name)), file(opened) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (file == nullptr) return;
    gzclose_w(file);
    std::remove(Part().c_str());
  }
  std::string Part() const { return path + ".part"; }

  const std::string path;
  gzFile file;
};

TfrecordWriter::~TfrecordWriter() = default;

absl::StatusOr<std::unique_ptr<TfrecordWriter>> TfrecordWriter::Create(
    std::vector<std::string> paths) {
  std::unique_ptr<TfrecordWriter> writer(new TfrecordWriter());
  for (std::string& path : paths) {
    // T: no compression, and no header of gzip.
    const char* const mode = IsCompressed(path) ? "wb" : "wbT";
    const gzFile file = gzopen((path + ".part").c_str(), mode);
    if (file == nullptr) {
      return absl::UnavailableError(absl::StrCat(path, ".part: ", ErrnoText()));
    }
    gzbuffer(file, static_cast<unsigned>(kReadBytes));
    writer->files_.push_back(std::make_unique<File>(std::move(path), file));
  }
  return writer;
}

absl::Status TfrecordWriter::Write(absl::string_view record) {
  File& file = *files_[next_];
  next_ = (next_ + 1) % files_.size();
  framed_.clear();
  tfgnn::AppendRecord(record, &framed_);
  for (absl::string_view rest = framed_; !rest.empty();) {
    // gzwrite counts in int.
    const std::size_t bytes = std::min<std::size_t>(rest.size(), std::size_t{1} << 30);
    if (gzwrite(file.file, rest.data(), static_cast<unsigned>(bytes)) <= 0) {
      return absl::UnavailableError(absl::StrCat(file.Part(), ": ", ErrnoText()));
    }
    rest.remove_prefix(bytes);
  }
  return absl::OkStatus();
}

absl::Status TfrecordWriter::Finish() {
  for (const std::unique_ptr<File>& file : files_) {
    const bool is_written = gzclose_w(std::exchange(file->file, nullptr)) == Z_OK;
    if (is_written && std::rename(file->Part().c_str(), file->path.c_str()) == 0) continue;
    const absl::Status failed = absl::UnavailableError(absl::StrCat(file->path, ": ", ErrnoText()));
    std::remove(file->Part().c_str());
    return failed;
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
