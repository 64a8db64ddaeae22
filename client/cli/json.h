// Writes JSON, just as much as the reports need.
#ifndef PACKHOUSE_CLIENT_CLI_JSON_H_
#define PACKHOUSE_CLIENT_CLI_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace packhouse::client {

// Text in quotes; the text is UTF-8.
std::string JsonString(absl::string_view text);

// With 17 digits, from which the same double is read; null if it is not finite, which JSON has not.
std::string JsonReal(double value);

// `[a, b]` of texts that are JSON themselves, on one line or one line for each.
std::string JsonArray(const std::vector<std::string>& values);
std::string JsonLines(const std::vector<std::string>& values);

// `{"name": value, ...}` in the order of the calls. Not thread-safe.
class JsonObject {
 public:
  JsonObject& Add(absl::string_view name, absl::string_view text);
  // Or a literal would be a boolean.
  JsonObject& Add(absl::string_view name, const char* text);
  JsonObject& Add(absl::string_view name, uint64_t value);
  JsonObject& Add(absl::string_view name, double value);
  JsonObject& Add(absl::string_view name, bool value);
  // A value that is JSON itself.
  JsonObject& AddJson(absl::string_view name, absl::string_view json);

  std::string Render() const;

 private:
  std::string fields_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_JSON_H_
