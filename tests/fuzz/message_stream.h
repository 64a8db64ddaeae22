// Cuts a fuzzer's input into messages: two bytes of length, little-endian, then the message.
#ifndef PACKHOUSE_TESTS_FUZZ_MESSAGE_STREAM_H_
#define PACKHOUSE_TESTS_FUZZ_MESSAGE_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace packhouse {

class MessageStream {
 public:
  MessageStream(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  std::optional<std::string> Next() {
    if (left_ < 2) return std::nullopt;
    const size_t wanted = data_[0] + 256 * size_t{data_[1]};
    const size_t length = std::min(wanted, left_ - 2);
    std::string message(reinterpret_cast<const char*>(data_) + 2, length);
    data_ += 2 + length;
    left_ -= 2 + length;
    return message;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FUZZ_MESSAGE_STREAM_H_
