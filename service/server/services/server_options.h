// What a server is asked to be, and how it is to end.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_OPTIONS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "service/access/authorizer.h"
#include "service/access/principal.h"
#include "service/access/text_signer.h"
#include "service/engine/epochs/sampling_observer.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/call_log.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/readiness.h"
#include "service/server/services/admin_actions.h"
#include "service/server/services/server_wing.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse::rpc {

struct ServerOptions {
  // "host:port" (port 0: any free one) or "unix:/path". Empty: in-process only.
  std::string address;
  // "unix:/path" of a socket at which whoever may open it may administer the server, and do nothing
  // else; others must have the right by `authorizer`. Empty: none.
  std::string admin_address;
  // Whether the server starts without that socket if it cannot be made; the log says so.
  bool may_lack_admin_address = false;
  // "unix:/path" of a socket at which clients on this host open lanes (docs/lane.md). Empty: none.
  std::string lane_address;
  // Whether a sample of the sizes of each open stream is kept, for Server::live_streams().
  bool keeps_stream_sizes = true;
  // The largest message in both directions. The tensors of a batch take at most 7/8 of it, less 1
  // MiB.
  int max_message_bytes = 64 << 20;
  size_t stream_threads = 2;
  // Threads for quick calls, and for beginning other calls.
  size_t call_threads = 2;
  // Calls that plan at the same time; each begun call has a thread (planning_pool.h).
  size_t plan_threads = 2;
  // Threads that wait for the disk: at most this many appends share one flush. They hold up neither
  // streams nor other calls, and wait more than they work.
  size_t append_threads = 8;
  Gate::Bounds admission;
  // The most calls and streams of one connection. Clients are told, and keep further ones at their
  // side until others are over.
  size_t max_streams_per_connection = 64;
  // The most connections, of all clients and of one. Unset: as many as memory is put by for
  // (server_bounds.h), and half of all. In-process there are none.
  std::optional<size_t> max_connections;
  std::optional<size_t> max_connections_per_client;
  // Connections without an open call are closed after about this long.
  absl::Duration connection_idle_timeout = absl::InfiniteDuration();
  // The most streams of Health.Watch; one client may have half of them. The gate does not count
  // them, and they may be idle for any time.
  size_t max_health_watches = 512;
  // A stream on which nothing has gone either way for this long, or up to a quarter longer, ends;
  // infinite: none does.
  absl::Duration stream_idle_timeout = absl::InfiniteDuration();
  // max_batch_bytes is derived from max_message_bytes; max_graphs_per_batch may be lowered by it.
  StreamBounds streams;
  // The memory that all calls may hold together; memory_shares.h says for what. At least eight
  // times max_message_bytes.
  uint64_t memory_budget = uint64_t{4} << 30;
  // The most bytes of pending graphs, and of grids of limits that are being sent, in all streams
  // together. Unset: the budget's share for them.
  std::optional<uint64_t> max_total_pending_bytes;
  HistogramStore::Bounds histograms;
  // Makes those that servers share, counted in `memory`. Null: this server has histograms of its
  // own.
  std::function<std::unique_ptr<HistogramStore>(HistogramStore::Bounds bounds,
                                                MemoryBudget* memory)>
      share_histograms;
  // Where named histograms are kept (histogram_file.h): read at the start, written by
  // SaveHistograms(). Empty: they end with the server.
  std::string histograms_folder;
  JobsOptions jobs;
  // The logs of the jobs. Null: there are none. Must outlive the server.
  JobLogs* job_logs = nullptr;
  // Whether several servers share the jobs.
  bool shares_jobs() const { return job_logs != nullptr && !job_logs->is_alone(); }
  // Called when the server drains and its Load streams have been told so: others may take the jobs.
  // May be null.
  std::function<void()> leave_cluster;
  // What the server has besides, each made once; and what it lacks.
  std::vector<MakeServerWing> wings;
  std::vector<AbsentServices> absent_services;
  // EpochKinds::absent.
  std::vector<std::pair<std::string, std::string>> absent_kinds;
  // Why no wing brings a format of examples, if none does.
  std::string why_no_examples = "this server has no such format";
  // After this time, up to a tenth more or less, a connection gets GOAWAY, and its client opens
  // another one for its next calls. So clients reach servers that were added. Calls of the old
  // connection may go on for the grace, and are then cancelled.
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration max_connection_age_grace = absl::InfiniteDuration();
  // While it is not ready, gRPC health says so of every service; must outlive the server. Null:
  // only a drain keeps the server from work.
  const Readiness* readiness = nullptr;
  // Whether clients may ask for the services and their messages (gRPC server reflection).
  bool reflection = true;
  // Its pointees must outlive the server.
  CallLog log;
  // Told of sub-graphs that are drawn; must outlive the server. May be null.
  SamplingObserver* sampling_observer = nullptr;
  // What batches cost on devices; must outlive the server. Null: kept in memory.
  FeedbackStore* feedback = nullptr;
  // Null: plain text.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Who callers are; null: nobody asks. What they may do; null: everything. Both outlive the
  // server.
  const Authenticator* authenticator = nullptr;
  const Authorizer* authorizer = nullptr;
  // Signs cursors and page tokens; null: they are not signed. It outlives the server.
  const TextSigner* signer = nullptr;
  // Whether those who may administer the server see what gRPC knows of its connections.
  bool channelz = false;
  AdminActions admin;
};

struct DrainOptions {
  // How long everything is still served, new calls and connections too, while health says that they
  // should go elsewhere. Load balancers need this time to notice. Zero if there is none.
  absl::Duration lame_duck = absl::ZeroDuration();
  // How long calls and streams that are then open may go on.
  absl::Duration timeout = absl::ZeroDuration();
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_OPTIONS_H_
