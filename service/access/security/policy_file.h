// The policy as people write it: YAML.
//
//   version: 1
//   roles:
//     - role: trainer
//       principals: [alice, "system:serviceaccount:ml:train"]
//       namespaces: [team-a, default]
//     - role: admin
//       principals: [operator]
//       namespaces: ["*"]
//   namespaces:
//     team-a:
//       quotas: {disk_bytes: 200GiB, datasets: 100, streams: 64, planning: 25%}
//     "*":
//       quotas: {datasets: 10}
//
// docs/security.md says what the roles may do and what the quotas count.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_POLICY_FILE_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_POLICY_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/authorizer.h"
#include "service/access/policy.h"
#include "service/access/security/reloader.h"
#include "service/access/security/small_file.h"

namespace packhouse::security {

// INVALID_ARGUMENT naming the line, the key and what is wrong. Unknown keys, and keys that are
// there twice, are wrong: a misspelt one must not open or close anything by accident. So is a
// second document, and a `*` that is only a part of a principal.
absl::StatusOr<Policy> ParsePolicy(const std::string& yaml);

// Keeps an Authorizer up to date with a file.
class PolicyFile final : public Reloadable {
 public:
  // Errors as ReadSmallFile() and ParsePolicy(); they name the path.
  static absl::StatusOr<std::unique_ptr<PolicyFile>> Open(std::string path);

  absl::StatusOr<bool> Reload() override { return Read(/*is_asked=*/true); }
  absl::StatusOr<bool> Look() override { return Read(/*is_asked=*/false); }
  bool is_at_rest() const override { return resting_.is_at_rest(); }

  const Authorizer* authorizer() const { return &authorizer_; }

 private:
  explicit PolicyFile(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<bool> Read(bool is_asked);

  const std::string path_;
  RestingFile resting_;
  std::string text_;  // Of the policy in use. Used by one thread at a time.
  Authorizer authorizer_{std::make_shared<const Policy>()};
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_POLICY_FILE_H_
