#include "service/stores/lmdb/stored_keys.h"

#include "absl/strings/str_cat.h"

namespace packhouse {
namespace {

std::string NumberedKey(absl::string_view kind, uint64_t number) {
  std::string key(kind);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

}  // namespace

std::string FormatKey() { return "f"; }
std::string NameKey(absl::string_view name) { return absl::StrCat(kNamePrefix, name); }
std::string StateKey(uint64_t dataset) { return NumberedKey(kStatePrefix, dataset); }
std::string TombstoneKey(uint64_t dataset) { return NumberedKey(kTombstonePrefix, dataset); }
std::string RecordPrefix(uint64_t dataset) { return NumberedKey(kRecordPrefix, dataset); }
std::string HistogramPrefix(uint64_t dataset) { return NumberedKey(kHistogramPrefix, dataset); }
std::string ProducerPrefix(uint64_t dataset) { return NumberedKey(kProducerPrefix, dataset); }
std::string RecordKey(uint64_t dataset, uint64_t first_graph) {
  return NumberedKey(RecordPrefix(dataset), first_graph);
}
std::string HistogramKeyOf(uint64_t dataset, uint64_t first_graph) {
  return NumberedKey(HistogramPrefix(dataset), first_graph);
}
std::string ProducerKey(uint64_t dataset, absl::string_view producer) {
  return absl::StrCat(ProducerPrefix(dataset), producer);
}
std::string LogFormatKey() { return "l"; }
std::string LogTailKey() { return "b"; }

std::optional<uint64_t> NumberAtEnd(absl::string_view key) {
  if (key.size() != 1 + sizeof(uint64_t) && key.size() != 1 + 2 * sizeof(uint64_t)) {
    return std::nullopt;
  }
  uint64_t number = 0;
  for (const char byte : key.substr(key.size() - sizeof(number))) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return number;
}

std::optional<uint64_t> NumberBeforeEnd(absl::string_view key) {
  if (key.size() != 1 + 2 * sizeof(uint64_t)) return std::nullopt;
  return NumberAtEnd(key.substr(0, key.size() - sizeof(uint64_t)));
}

}  // namespace packhouse
