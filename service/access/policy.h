// Roles of principals in namespaces, and quotas of namespaces.
#ifndef PACKHOUSE_SERVICE_ACCESS_POLICY_H_
#define PACKHOUSE_SERVICE_ACCESS_POLICY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/principal.h"

namespace packhouse {

// What a call needs in the namespace of each thing that it names.
enum class Right {
  kView,        // To see that there is something, its sizes and its plans.
  kTrain,       // To read graphs and to load epochs.
  kProduce,     // To create things and to add to them.
  kOwn,         // To delete.
  kAdminister,  // To run the server; counts in the namespace "*" alone.
};

// viewer: view. trainer: view, train. producer: view, produce. owner: all of these, and own. admin:
// everything.
enum class Role { kViewer, kTrainer, kProducer, kOwner, kAdmin };

absl::string_view NameOf(Right right);
absl::string_view NameOf(Role role);
std::optional<Role> RoleNamed(absl::string_view name);
bool Includes(Role role, Right right);

inline constexpr absl::string_view kDefaultNamespace = "default";
// In a policy: all namespaces, or all principals.
inline constexpr absl::string_view kAll = "*";
// In a policy: who has shown no certificate and no token.
inline constexpr absl::string_view kAnonymous = "anonymous";

// The part of `name` before its first slash; "default" if there is none.
absl::string_view NamespaceOf(absl::string_view name);

// 1 to 63 characters of [A-Za-z0-9_.-]. INVALID_ARGUMENT naming it.
absl::Status CheckNamespace(absl::string_view name);

// The most that a namespace may have; nullopt: no bound of its own.
struct Quotas {
  std::optional<uint64_t> disk_bytes;  // Of data sets, source graphs and partitions.
  std::optional<uint64_t> datasets;
  std::optional<uint64_t> source_graphs;
  std::optional<uint64_t> histograms;
  std::optional<uint64_t> epochs;         // That are remembered.
  std::optional<uint64_t> streams;        // Open ones that name something in it.
  std::optional<uint64_t> pending_bytes;  // Of graphs that wait in streams.
  std::optional<double> planning;         // Share of the threads that plan, above 0, at most 1.

  friend bool operator==(const Quotas&, const Quotas&) = default;
};

// The quotas that a namespace has now. Thread-safe.
using QuotasOf = std::function<Quotas(absl::string_view where)>;

// RESOURCE_EXHAUSTED naming the namespace, the quota, its bound, and the value that there would be.
absl::Status BeyondQuota(absl::string_view where, absl::string_view quota, uint64_t value,
                         uint64_t most);

// What a namespace uses of a quota, for monitoring.
struct QuotaReading {
  std::string where;
  std::string quota;  // "datasets"
  double used = 0;
  double limit = 0;
};

// Constant after construction; thread-safe.
class Policy {
 public:
  struct Grant {
    std::vector<std::string> principals;
    Role role = Role::kViewer;
    std::vector<std::string> namespaces;
  };

  Policy() = default;
  // INVALID_ARGUMENT if a grant has no principal or no namespace, or a namespace has no valid name.
  static absl::StatusOr<Policy> Create(std::vector<Grant> grants,
                                       absl::flat_hash_map<std::string, Quotas> quotas);

  // Whether `principal` has `right` in `where`, a namespace. O(roles of the principal).
  bool Allows(const Principal& principal, Right right, absl::string_view where) const;
  // Whether it has it in at least one namespace.
  bool AllowsSomewhere(const Principal& principal, Right right) const;

  // Those of the namespace; else those of "*", which every other namespace has for itself.
  const Quotas& QuotasOf(absl::string_view where) const;

  size_t num_principals() const { return roles_.size(); }
  size_t num_namespaces() const { return quotas_.size(); }
  // Those that have quotas of their own, by name.
  const absl::flat_hash_map<std::string, Quotas>& quotas() const { return quotas_; }

 private:
  struct RoleIn {
    Role role;
    std::string where;
  };

  absl::flat_hash_map<Principal, std::vector<RoleIn>> roles_;
  absl::flat_hash_map<std::string, Quotas> quotas_;
  Quotas others_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_POLICY_H_
