#include "service/base/file_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/digest.h"

namespace packhouse {
namespace {

constexpr size_t kDigestBytes = 16;
constexpr unsigned char kDelete = 0x7f;

bool IsEscaped(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < ' ' || byte == kDelete ||
         absl::string_view("/\\%*?[]@").find(c) != absl::string_view::npos;
}

// The second and further bytes of a character of UTF-8.
bool IsInsideCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string FileNameOf(absl::string_view name) {
  constexpr absl::string_view kHex = "0123456789ABCDEF";
  constexpr size_t kMaxBegin = kMaxFileNameBytes - 2 * kDigestBytes - 2;
  if (name.empty()) return "%";
  std::string file;
  size_t begin = 0;  // Of what a long name keeps: whole characters and escapes.
  for (size_t i = 0; i < name.size(); ++i) {
    if (file.size() <= kMaxBegin && !IsInsideCharacter(name[i])) begin = file.size();
    if (IsEscaped(name[i]) || (i == 0 && name[i] == '.')) {
      const auto byte = static_cast<unsigned char>(name[i]);
      absl::StrAppend(&file, "%", kHex.substr(byte >> 4, 1), kHex.substr(byte & 0xf, 1));
    } else {
      file += name[i];
    }
  }
  if (file.size() <= kMaxFileNameBytes) return file;
  Digest digest;
  digest.AddBytes(name);
  file.resize(begin);
  return absl::StrCat(file, "%-", digest.Hex(kDigestBytes));
}

bool IsPathBelow(absl::string_view path) {
  if (path.find('\0') != absl::string_view::npos) return false;
  const std::vector<absl::string_view> components = absl::StrSplit(path, '/');
  return std::none_of(components.begin(), components.end(), [](absl::string_view component) {
    return component.empty() || component == "." || component == "..";
  });
}

}  // namespace packhouse
