// Files whose sink fails.
#ifndef PACKHOUSE_TESTS_PARTITION_FILES_FAILING_SINK_H_
#define PACKHOUSE_TESTS_PARTITION_FILES_FAILING_SINK_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// Fails at write number `failing`, from 0 on.
class FailingSink final : public ByteSink {
 public:
  explicit FailingSink(size_t failing) : failing_(failing) {}
  absl::Status Write(absl::string_view /*bytes*/) override {
    return num_writes_++ == failing_ ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  }
  size_t num_writes() const { return num_writes_; }

 private:
  const size_t failing_;
  size_t num_writes_ = 0;
};

// Whichever write fails, the file's writer says so and writes nothing more.
inline void ExpectSinkErrorsAreTold(const std::function<absl::Status(ByteSink&)>& write) {
  FailingSink none(SIZE_MAX);
  ASSERT_TRUE(write(none).ok());
  ASSERT_GT(none.num_writes(), 0U);
  for (size_t failing = 0; failing < none.num_writes(); ++failing) {
    FailingSink sink(failing);
    EXPECT_EQ(write(sink), absl::ResourceExhaustedError("full")) << failing;
    EXPECT_EQ(sink.num_writes(), failing + 1);
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PARTITION_FILES_FAILING_SINK_H_
