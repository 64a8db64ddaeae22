#include "client/bench/measures/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/bench/bench_sockets.h"
#include "client/bench/bench_window.h"

namespace packhouse::client {
namespace {

// Reads plain bytes for the time of a run.
absl::StatusOr<RunSample> RunTcp(const BenchServer& server, const BenchSettings& settings) {
  const FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.get() < 0) return absl::UnavailableError("cannot make a socket");
  if (!settings.congestion.empty()) {
    (void)setsockopt(connection.get(), IPPROTO_TCP, TCP_CONGESTION, settings.congestion.data(),
                     static_cast<socklen_t>(settings.congestion.size()));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(PortOf(server.Listening("tcp"))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot connect: ", std::strerror(errno)));
  }
  std::vector<char> piece(std::size_t{1} << 20);
  RunSample sample;
  const Window window(server.pid());
  const absl::Time end = absl::Now() + settings.seconds;
  while (absl::Now() < end) {
    const ssize_t count = recv(connection.get(), piece.data(), piece.size(), 0);
    if (count <= 0) break;
    ++sample.messages;
    sample.bytes += static_cast<uint64_t>(count);
  }
  window.End(sample);
  return sample;
}

}  // namespace

absl::StatusOr<Runs> MeasureTcp(const BenchSetup& setup) {
  const absl::StatusOr<std::unique_ptr<BenchServer>> ceiling = setup.StartCeiling(0);
  if (!ceiling.ok()) return ceiling.status();
  Runs runs;
  for (int run = 0; run < setup.settings().runs; ++run) {
    const absl::Status status =
        setup.AddRun(runs, [&] { return RunTcp(**ceiling, setup.settings()); });
    if (!status.ok()) return status;
  }
  return runs;
}

}  // namespace packhouse::client
