// Any bytes as a TFRecord file. Whatever comes in, and however it is cut: no crash, the same
// records until the damage, and what was read without damage is the file.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "service/wings/tfgnn/record_framing.h"

namespace {

struct Outcome {
  std::vector<std::string> records;
  bool is_whole = false;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Read(absl::string_view file, size_t piece) {
  Outcome outcome;
  packhouse::tfgnn::RecordReader reader("f", 1 << 20);
  while (!file.empty()) {
    reader.Feed(file.substr(0, piece));
    file.remove_prefix(std::min(piece, file.size()));
    while (true) {
      const auto record = reader.Next();
      if (!record.ok()) return outcome;
      if (!record->has_value()) break;
      outcome.records.emplace_back(**record);
    }
  }
  outcome.is_whole = reader.Finish().ok();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view file(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Read(file, size + 1);
  const Outcome cut = Read(file, 1 + size % 7);
  std::string again;
  for (const std::string& record : whole.records) {
    packhouse::tfgnn::AppendRecord(record, &again);
  }
  const bool is_prefix = file.substr(0, again.size()) == absl::string_view(again);
  if (whole == cut && is_prefix && (!whole.is_whole || again.size() == file.size())) return 0;
  std::fprintf(stderr, "read otherwise when cut, or not what the file has\n");
  std::abort();
}
