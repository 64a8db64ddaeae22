#include "service/wings/tfgnn/example_fields.h"

#include "absl/strings/str_cat.h"

namespace packhouse::tfgnn {

absl::string_view ListKindName(ListKind kind) {
  switch (kind) {
    case ListKind::kBytes:
      return "bytes";
    case ListKind::kFloats:
      return "floats";
    case ListKind::kInt64s:
      return "int64s";
    case ListKind::kNone:
      break;
  }
  return "nothing";
}

size_t ExampleFields::AddKey(absl::string_view key) {
  const auto [at, is_new] = number_of_.emplace(key, keys_.size());
  if (is_new) {
    keys_.emplace_back(key);
    places_.emplace_back();
    // A writer that sorts its keys has them in this order.
    next_.push_back(keys_.size());
  }
  return at->second;
}

absl::string_view ExampleFields::Joined(absl::string_view a, absl::string_view b) {
  joined_.push_back(absl::StrCat(a, b));
  return joined_.back();
}

bool ExampleFields::Find(absl::string_view record) {
  ++record_;
  joined_.clear();
  WireCursor cursor(record);
  uint32_t tag;
  while (cursor.Next(&tag)) {
    if (tag != TagOf(1, kBytes)) {
      cursor.Skip(tag);
      continue;
    }
    if (!FindInFeatures(cursor.ReadBytes())) return false;
  }
  return !cursor.is_malformed();
}

bool ExampleFields::FindInFeatures(absl::string_view features) {
  WireCursor cursor(features);
  uint32_t tag;
  while (cursor.Next(&tag)) {
    if (tag != TagOf(1, kBytes)) {
      cursor.Skip(tag);
      continue;
    }
    if (!TakeEntry(cursor.ReadBytes())) return false;
  }
  return !cursor.is_malformed();
}

bool ExampleFields::TakeEntry(absl::string_view entry) {
  absl::string_view key;
  absl::string_view feature;
  WireCursor cursor(entry);
  uint32_t tag;
  while (cursor.Next(&tag)) {
    if (tag == TagOf(1, kBytes)) {
      key = cursor.ReadBytes();
    } else if (tag == TagOf(2, kBytes)) {
      const absl::string_view part = cursor.ReadBytes();
      feature = feature.empty() ? part : Joined(feature, part);
    } else {
      cursor.Skip(tag);
    }
  }
  if (cursor.is_malformed()) return false;
  size_t number = last_ < next_.size() ? next_[last_] : 0;
  if (number >= keys_.size() || keys_[number] != key) {
    const auto found = number_of_.find(key);
    if (found == number_of_.end()) {
      // Nobody asks for it, but bytes that are no tf.Example are refused wherever they are.
      FeatureList list;
      places_.push_back({feature, record_});
      const bool is_whole = ListOf(places_.size() - 1, &list);
      places_.pop_back();
      return is_whole;
    }
    number = found->second;
    if (last_ < next_.size()) next_[last_] = number;
  }
  places_[number] = {feature, record_};
  last_ = number;
  return true;
}

bool ExampleFields::ListOf(size_t number, FeatureList* list) {
  *list = {};
  if (places_[number].record != record_) return true;
  absl::string_view message;
  WireCursor cursor(places_[number].feature);
  uint32_t tag;
  while (cursor.Next(&tag)) {
    const uint32_t field = tag >> 3;
    if (tag != TagOf(field, kBytes) || field > static_cast<uint32_t>(ListKind::kInt64s)) {
      cursor.Skip(tag);
      continue;
    }
    const ListKind kind = static_cast<ListKind>(field);
    const absl::string_view part = cursor.ReadBytes();
    message = kind == list->kind && !message.empty() ? Joined(message, part) : part;
    list->kind = kind;
  }
  return !cursor.is_malformed() && Normalize(list->kind, message, &list->values);
}

bool ExampleFields::Normalize(ListKind kind, absl::string_view list, absl::string_view* values) {
  *values = list;
  if (kind == ListKind::kNone || list.empty()) return true;
  if (kind == ListKind::kBytes) return ForEachString(list, [](absl::string_view) {});
  const WireType single = kind == ListKind::kFloats ? kFixed32 : kVarint;
  WireCursor cursor(list);
  uint32_t tag;
  bool is_first = true;
  std::string* collected = nullptr;
  *values = {};
  while (cursor.Next(&tag)) {
    absl::string_view part;
    if (tag == TagOf(1, kBytes)) {
      part = cursor.ReadBytes();
      const bool is_whole = kind == ListKind::kFloats
                                ? part.size() % sizeof(float) == 0
                                : part.empty() || static_cast<signed char>(part.back()) >= 0;
      if (!is_whole) return false;
    } else if (tag == TagOf(1, single)) {
      const absl::string_view before = cursor.rest();
      if (single == kFixed32) {
        cursor.ReadFixed(sizeof(float));
      } else {
        cursor.ReadVarint();
      }
      part = before.substr(0, before.size() - cursor.rest().size());
    } else {
      cursor.Skip(tag);
      continue;
    }
    if (is_first) {
      *values = part;
      is_first = false;
      continue;
    }
    if (collected == nullptr) collected = &joined_.emplace_back(*values);
    collected->append(part.data(), part.size());
    *values = *collected;
  }
  return !cursor.is_malformed();
}

}  // namespace packhouse::tfgnn
