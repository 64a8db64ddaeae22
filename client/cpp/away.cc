#include "client/cpp/away.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {
namespace {

struct Row {
  const char* key;
  const char* value;
};

// A code, and words of its message in small letters; "": whatever it says. gRPC makes CANCELLED of
// the moment of a server's leaving, DEADLINE_EXCEEDED of one that stands still, and INTERNAL or
// UNKNOWN of a stream that something else than the server has ended. HTTP/2's error 11 is "enhance
// your calm": gRPC ends any call by it when those that are being received take too much memory. The
// Python client has the same rows (packhouse/base/errors.py); tests/structure/retry_advice_test.py
// compares them.
constexpr Row kPasses[] = {
    {"UNAVAILABLE", ""},
    {"CANCELLED", ""},
    {"DEADLINE_EXCEEDED", ""},
    {"RESOURCE_EXHAUSTED", "no space left"},
    {"RESOURCE_EXHAUSTED", "disk quota exceeded"},
    {"RESOURCE_EXHAUSTED", "database space exceeded"},
    {"RESOURCE_EXHAUSTED", "rst_stream with error code 11"},
    {"INTERNAL", "rst_stream"},
    {"UNKNOWN", "stream removed"},
};

// Words of gRPC's by which a status is not the server's, and what they mean.
constexpr Row kMeanings[] = {
    {"rst_stream with error code 11", "the server lacked memory, and ended it (--memory-budget)"},
    {"rst_stream", "a proxy has ended the call: see its timeouts (nginx: grpc_read_timeout)"},
    {"http2 header with status", "a proxy answered, which does not reach the server"},
    {"enter idle", "the server ended the connection (--max-connection-age)"},
};

}  // namespace

bool Passes(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string words = absl::AsciiStrToLower(status.message());
  for (const Row& row : kPasses) {
    if (code == row.key && absl::StrContains(words, row.value)) return true;
  }
  return false;
}

std::string MeaningOfEnd(absl::string_view message) {
  const std::string words = absl::AsciiStrToLower(message);
  for (const Row& row : kMeanings) {
    if (absl::StrContains(words, row.key)) return absl::StrCat(": ", row.value);
  }
  return "";
}

}  // namespace packhouse::client
