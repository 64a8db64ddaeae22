// Any bytes as CSV. Whatever comes in, and however it is cut: no crash, the same records, and what
// was read is read again when it is written with every field in quotes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "service/wings/graphs/files/csv_reader.h"

namespace {

struct Outcome {
  std::vector<std::vector<std::string>> records;
  std::string error;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Read(absl::string_view file, size_t piece) {
  Outcome outcome;
  packhouse::graph_files::CsvReader reader;
  for (bool is_ended = false;;) {
    const auto has_record = reader.Next();
    if (!has_record.ok()) {
      outcome.error = std::string(has_record.status().message());
      return outcome;
    }
    if (*has_record) {
      outcome.records.emplace_back(reader.fields().begin(), reader.fields().end());
    } else if (is_ended) {
      return outcome;
    } else if (file.empty()) {
      reader.End();
      is_ended = true;
    } else {
      reader.Feed(file.substr(0, piece));
      file.remove_prefix(std::min(piece, file.size()));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view file(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Read(file, size + 1);
  const Outcome cut = Read(file, 1 + size % 7);
  std::string again;
  for (const auto& record : whole.records) {
    for (size_t i = 0; i < record.size(); ++i) {
      again += i == 0 ? "\"" : ",\"";
      again += absl::StrReplaceAll(record[i], {{"\"", "\"\""}}) + "\"";
    }
    again += "\r\n";
  }
  if (whole == cut && Read(again, 5).records == whole.records) return 0;
  std::fprintf(stderr, "read otherwise when cut, or when written again\n");
  std::abort();
}
