// What reads a text of JSON checks all of it.
#ifndef PACKHOUSE_TESTS_SUPPORT_JSON_MEMBERS_H_
#define PACKHOUSE_TESTS_SUPPORT_JSON_MEMBERS_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

struct JsonExceptions {
  std::set<std::string> may_lack;  // Members.
  std::set<std::string> unread;    // Whatever they are.
};

inline void ExpectPartChecked(nlohmann::ordered_json& whole, nlohmann::ordered_json& part,
                              const std::function<absl::Status(const std::string&)>& read,
                              const std::string& path, const JsonExceptions& exceptions) {
  using Json = nlohmann::ordered_json;
  const auto expect_refused = [&](const std::string& what) {
    EXPECT_EQ(read(whole.dump()).code(), absl::StatusCode::kInvalidArgument) << path << what;
  };
  const Json kept = part;
  for (const Json& other : {Json(), Json("?"), Json(-7), Json(uint64_t{7}), Json(7.5),
                            Json::array({Json::array()}), Json{{"?", 7}}}) {
    const bool may_be_it =
        part.type() == other.type() || (kept.is_number_float() && other.is_number());
    if (may_be_it) continue;
    part = other;
    expect_refused(" is " + other.dump());
    part = kept;
  }
  for (size_t i = 0; part.is_array() && i < part.size(); ++i) {
    ExpectPartChecked(whole, part[i], read, path + "/" + std::to_string(i), exceptions);
  }
  if (!part.is_object()) return;
  for (const auto& [key, value] : kept.items()) {
    if (exceptions.unread.count(key) != 0) continue;
    if (exceptions.may_lack.count(key) == 0) {
      part.erase(key);
      expect_refused("/" + key + " is missing");
      part = kept;
    }
    ExpectPartChecked(whole, part[key], read, path + "/" + key, exceptions);
  }
}

// `read` takes the text, and refuses it with INVALID_ARGUMENT if any member at any depth is
// missing, or anything in it is of another kind.
inline void ExpectMembersChecked(const std::string& text,
                                 const std::function<absl::Status(const std::string&)>& read,
                                 const JsonExceptions& exceptions = {}) {
  ASSERT_THAT(read(text), IsOk());
  auto json = nlohmann::ordered_json::parse(text);
  ExpectPartChecked(json, json, read, "", exceptions);
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_JSON_MEMBERS_H_
