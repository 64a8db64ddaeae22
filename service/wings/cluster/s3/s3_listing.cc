#include "service/wings/cluster/s3/s3_listing.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace packhouse {
namespace {

// The text between <name> and </name>, from `from` on, which moves behind it. S3's documents have
// no attributes but on the root, and no element within one of its own name.
std::optional<absl::string_view> NextElement(absl::string_view xml, absl::string_view name,
                                             size_t& from) {
  const std::string begin = absl::StrCat("<", name, ">");
  const std::string end = absl::StrCat("</", name, ">");
  const size_t first = xml.find(begin, from);
  if (first == absl::string_view::npos) return std::nullopt;
  const size_t text = first + begin.size();
  const size_t last = xml.find(end, text);
  if (last == absl::string_view::npos) return std::nullopt;
  from = last + end.size();
  return xml.substr(text, last - text);
}

std::optional<absl::string_view> Element(absl::string_view xml, absl::string_view name) {
  size_t from = 0;
  return NextElement(xml, name, from);
}

std::string Unescaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&amp;", "&"},
                                    {"&lt;", "<"},
                                    {"&gt;", ">"},
                                    {"&quot;", "\""},
                                    {"&apos;", "'"},
                                    {"&#34;", "\""},
                                    {"&#39;", "'"}});
}

absl::Status NoListing(absl::string_view why) {
  return absl::InternalError(absl::StrCat("S3: a listing ", why));
}

}  // namespace

std::string UriEncoded(absl::string_view text, bool keeps_slashes) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '~' ||
        c == '-' || (c == '/' && keeps_slashes)) {
      encoded.push_back(c);
    } else {
      absl::StrAppend(&encoded, "%",
                      absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return encoded;
}

std::string SortedQuery(std::vector<std::pair<std::string, std::string>> parameters) {
  std::sort(parameters.begin(), parameters.end());
  std::string query;
  for (const auto& [name, value] : parameters) {
    absl::StrAppend(&query, query.empty() ? "" : "&", UriEncoded(name, false), "=",
                    UriEncoded(value, false));
  }
  return query;
}

absl::StatusOr<ObjectList> ParseListing(absl::string_view xml) {
  const auto is_truncated = Element(xml, "IsTruncated");
  if (!absl::StrContains(xml, "<ListBucketResult") || !is_truncated) {
    return NoListing("without ListBucketResult or IsTruncated");
  }
  ObjectList list;
  list.has_more = *is_truncated == "true";
  size_t from = 0;
  while (const auto contents = NextElement(xml, "Contents", from)) {
    ObjectInfo& object = list.objects.emplace_back();
    const auto key = Element(*contents, "Key");
    const auto size = Element(*contents, "Size");
    const auto modified = Element(*contents, "LastModified");
    if (!key || !size || !modified) return NoListing("with an object without key, size or time");
    object.key = Unescaped(*key);
    std::string error;
    if (!absl::SimpleAtoi(*size, &object.num_bytes) ||
        !absl::ParseTime(absl::RFC3339_full, *modified, &object.modified, &error)) {
      return NoListing(absl::StrCat("with an object of size '", size->substr(0, 40), "' and time '",
                                    modified->substr(0, 40), "'"));
    }
  }
  // Who asks for the rest would ask for this again, for ever.
  if (list.has_more && list.objects.empty()) return NoListing("that goes on, without an object");
  return list;
}

std::string ParseS3Error(absl::string_view xml) {
  const auto code = Element(xml, "Code");
  const auto message = Element(xml, "Message");
  if (!code && !message) return "";
  std::string told = absl::StrCat(code.value_or("").substr(0, 60), ": ",
                                  Unescaped(message.value_or("").substr(0, 200)));
  // A redirect names where the bucket is; so does the refusal of a signature for another region.
  for (const auto& [name, flag] :
       {std::pair("Endpoint", "--s3-endpoint"), std::pair("Region", "--s3-region")}) {
    if (const auto value = Element(xml, name); value && !value->empty()) {
      absl::StrAppend(&told, "; it names ", Unescaped(value->substr(0, 100)), " (", flag, ")");
    }
  }
  return absl::CHexEscape(told);
}

}  // namespace packhouse
