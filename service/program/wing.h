// What wings bring to packhoused. service/program/wings has a file for each, which alone names it;
// the table of those that were built is generated (service/wings/wings.cmake).
#ifndef PACKHOUSE_SERVICE_PROGRAM_WING_H_
#define PACKHOUSE_SERVICE_PROGRAM_WING_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/access/security/security_files.h"
#include "service/base/clock.h"
#include "service/base/limited_log.h"
#include "service/program/commands/commands.h"
#include "service/program/data_folder/graph_folder.h"
#include "service/program/membership.h"
#include "service/program/options.h"
#include "service/program/server_readings.h"
#include "service/server/calls/readiness.h"
#include "service/server/http/http_server.h"
#include "service/server/listen/server.h"
#include "service/server/metrics/metrics.h"
#include "service/server/metrics/server_collector.h"
#include "service/server/services/server_wing.h"
#include "service/stores/limits/retention.h"

namespace CLI {
class App;
}

namespace packhouse {

// What pages of the HTTP port may show. The pointees outlive the pages.
struct HttpSources {
  rpc::Server* server = nullptr;
  const security::SecurityFiles* files = nullptr;
  const Readiness* readiness = nullptr;
  ServerReadings* readings = nullptr;
  const metrics::Metrics* metrics = nullptr;
  Clock* clock = nullptr;
};

// Pages of a wing.
class WingPages {
 public:
  virtual ~WingPages() = default;
  // Valid as long as this.
  virtual std::vector<http::Route> Routes() = 0;
};

// What a wing serves from. The pointees outlive the server.
struct ServedSources {
  const Options* options = nullptr;
  const ServedStores* stores = nullptr;
  Clock* clock = nullptr;
  EventLog* log = nullptr;
  // Set by the wing that serves them, for those that stand on it; null where it serves none.
  SourceGraphStore* source_graphs = nullptr;
  // The same, to be opened without being used, as a retention understands it.
  SourceGraphStore* unused_source_graphs = nullptr;
};

// Deletes what nobody has used for long, once each period.
struct Sweeping {
  const char* kind = nullptr;  // As in the log: "dataset".
  absl::Duration period;
  std::function<absl::Status(std::vector<Expired>& expired)> sweep;
};

// One process has one of each. The functions are called in this order, each once at most.
class Wing {
 public:
  virtual ~Wing() = default;

  // Both must outlive the parsing.
  virtual void AddFlags(Options& /*options*/, CLI::App& /*app*/) {}
  // Whether `uri` of --store is an address of this wing's.
  virtual bool TakesStore(absl::string_view /*uri*/) const { return false; }
  // Whether what the flags say goes together, when all of them are known. INVALID_ARGUMENT naming
  // the flag.
  virtual absl::Status CheckFlags(Options& /*options*/) { return absl::OkStatus(); }

  // Joins the servers that options.membership names. Null: not this wing's work. The arguments must
  // outlive the result.
  virtual absl::StatusOr<std::unique_ptr<Membership>> Join(const Options& /*options*/,
                                                           const MemberSettings& /*settings*/,
                                                           LimitedLog* /*log*/) {
    return nullptr;
  }
  // Opens what it keeps in options.data_dir: if there is one, and this server is alone.
  virtual absl::Status OpenFolder(const Options& /*options*/) { return absl::OkStatus(); }
  // The source graphs of that folder, if it keeps them. This must outlive them.
  virtual std::optional<OpenedGraphs> opened_graphs() const { return std::nullopt; }
  // What the server has of it; null: nothing. The wing must outlive the server.
  virtual absl::StatusOr<rpc::MakeServerWing> Serve(ServedSources& /*sources*/) {
    return rpc::MakeServerWing();
  }
  // Adds what metrics and pages show of it.
  virtual void Show(metrics::ServerReading& /*reading*/) const {}
  // Unset: nothing of it expires.
  virtual std::optional<Sweeping> SweepUnused(rpc::Server& /*server*/) { return std::nullopt; }
  // For the end of the process, as ServedStores::SaveUses().
  virtual void SaveUses() {}
  // Null: none.
  virtual std::unique_ptr<WingPages> OpenPages(const HttpSources& /*sources*/) { return nullptr; }
};

// A wing that was built, and what it brings without a server.
struct BuiltWing {
  absl::string_view name;
  std::unique_ptr<Wing> (*make)() = nullptr;
  // To `packhoused store`; null: none.
  void (*add_to_store)(CLI::App& store, ExitCode& code) = nullptr;
  // To `packhoused store check` and `repair`; null: none.
  SharedCheck (*add_to_check)(CLI::App& check) = nullptr;
  SharedRepair (*add_to_repair)(CLI::App& repair) = nullptr;
  // To `packhoused store snapshot` and `restore`; null: none.
  SharedSnapshot (*add_to_snapshot)(CLI::App& snapshot) = nullptr;
  SharedSnapshot (*add_to_restore)(CLI::App& restore) = nullptr;
  // Of the folder of source graphs, if it keeps them; and of what it keeps beside each of them.
  GraphFolder (*graphs)(const CompanionChecks& companions) = nullptr;
  CompanionChecks companions = {};
};

// A wing that this packhoused was built without, and what it would answer to.
struct AbsentWing {
  absl::string_view name;
  std::vector<absl::string_view> flags;     // "--ledger"
  std::vector<absl::string_view> stores;    // Beginnings of addresses of --store: "s3:"
  std::vector<absl::string_view> commands;  // Of `packhoused store`.
  std::vector<absl::string_view> services;  // In full, as in the protos.
  std::vector<absl::string_view> items;     // Fields of EpochSpec that ask for a kind of items.
  std::vector<absl::string_view> paths;     // Of the HTTP port.
  std::vector<absl::string_view> folders;   // In the data folder, which it alone reads.
  std::vector<absl::string_view> formats;   // Of graphs in requests: "examples".

  // "this packhoused was built without the wing NAME": for whoever asks for something of it.
  std::string WhyNot() const;
};

struct WingTable {
  std::vector<BuiltWing> built;
  std::vector<AbsentWing> absent;
};

// Constant; thread-safe.
const WingTable& WingsOfProgram();

// One of each that was built.
std::vector<std::shared_ptr<Wing>> MakeWings();

// Flags of wings that are absent, which are in no list: so that they are known, wherever they are
// said.
void AddAbsentFlags(CLI::App& app);
// INVALID_ARGUMENT naming the first of these among the words of a command line.
absl::Status RefuseAbsentFlags(absl::Span<const std::string> arguments);
// The wing that would take this --store; null: none.
const AbsentWing* AbsentWingOfStore(absl::string_view uri);
// The wings' opened_graphs(), or why there are none.
OpenedGraphs OpenedGraphsOf(const std::vector<std::shared_ptr<Wing>>& wings);
// What the commands have of all wings.
CommandParts PartsOfCommands();
std::vector<rpc::AbsentServices> AbsentServicesOfWings();
// EpochKinds::absent.
std::vector<std::pair<std::string, std::string>> AbsentKindsOfWings();
// ServerOptions::why_no_examples.
std::string WhyNoExamples();
// For each path of a wing that is absent: 404 and why.
std::vector<http::Route> RoutesOfAbsentWings();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WING_H_
