// One number for a whole answer: for laws of answers that are the same on every machine.
#ifndef PACKHOUSE_TESTS_SUPPORT_FINGERPRINT_H_
#define PACKHOUSE_TESTS_SUPPORT_FINGERPRINT_H_

#include <bit>
#include <cstdint>

namespace packhouse {

// FNV-1a of 64 bits over the bytes of numbers.
class Fingerprint {
 public:
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      value_ = (value_ ^ ((number >> shift) & 0xff)) * 0x100000001b3;
    }
  }
  void AddDouble(double number) { Add(std::bit_cast<uint64_t>(number)); }
  // Of a list of numbers or characters, with its length.
  template <typename Numbers>
  void AddAll(const Numbers& numbers) {
    Add(numbers.size());
    for (const auto number : numbers) Add(static_cast<uint64_t>(number));
  }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FINGERPRINT_H_
