// Where the bytes of a file go.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_BYTE_SINK_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_BYTE_SINK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// Takes the bytes of one file, from its first to its last. After an error nothing more is written.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Write(absl::string_view bytes) = 0;
};

// A file in memory, for small ones and for tests.
class StringSink : public ByteSink {
 public:
  absl::Status Write(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_BYTE_SINK_H_
