// A hash of a sequence of numbers and texts, the same on every machine.
#ifndef PACKHOUSE_SERVICE_BASE_DIGEST_H_
#define PACKHOUSE_SERVICE_BASE_DIGEST_H_

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// SHA-256. Thread-compatible.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest() { EVP_MD_CTX_free(context_); }

  void Add(uint64_t number) {
    std::array<unsigned char, 8> bytes;
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<unsigned char>(number >> (8 * i));
    }
    EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  }

  // Adds the length too, so that ("ab", "c") and ("a", "bc") differ.
  void Add(absl::string_view text) {
    Add(uint64_t{text.size()});
    EVP_DigestUpdate(context_, text.data(), text.size());
  }

  // Adds bytes alone: those of several calls are one text, as sha256sum has it.
  void AddBytes(absl::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }

  // The first `num_bytes` (at most 32) in hexadecimal. May be called once.
  std::string Hex(size_t num_bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
    unsigned size = 0;
    EVP_DigestFinal_ex(context_, bytes.data(), &size);
    return absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(bytes.data()), num_bytes));
  }

 private:
  EVP_MD_CTX* const context_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_DIGEST_H_
