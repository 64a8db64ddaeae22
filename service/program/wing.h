// What wings bring to packhoused. service/program/wings has a file for each, which alone names it;
// the table of those that were built is generated (service/wings/wings.cmake).
#ifndef PACKHOUSE_SERVICE_PROGRAM_WING_H_
#define PACKHOUSE_SERVICE_PROGRAM_WING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/access/security/security_files.h"
#include "service/base/clock.h"
#include "service/program/server_readings.h"
#include "service/server/calls/readiness.h"
#include "service/server/http/http_server.h"
#include "service/server/listen/server.h"
#include "service/server/metrics/metrics.h"

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

// Members that are null stand for nothing.
struct Wing {
  absl::string_view name;
  std::unique_ptr<WingPages> (*open_pages)(const HttpSources& sources) = nullptr;
};

// A wing that this packhoused was built without, and what it would answer to.
struct AbsentWing {
  absl::string_view name;
  std::vector<absl::string_view> flags;     // "--ledger"
  std::vector<absl::string_view> services;  // Full names, as in the protos.
  std::vector<absl::string_view> paths;     // Of the HTTP port.

  // "this packhoused was built without the wing NAME": for whoever asks for something of it.
  std::string WhyNot() const;
};

struct Wings {
  std::vector<Wing> built;
  std::vector<AbsentWing> absent;
};

// Constant; thread-safe.
const Wings& WingsOfProgram();

// For each path of a wing that is absent: 404 and why.
std::vector<http::Route> RoutesOfAbsent(const Wings& wings);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WING_H_
