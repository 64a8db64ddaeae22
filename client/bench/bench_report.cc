#include "client/bench/bench_report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "service/base/command_line/table.h"

namespace packhouse::client {
namespace {

using Figure = double (RunSample::*)() const;
constexpr Figure kGigabytes = &RunSample::gigabytes_per_second;
constexpr Figure kMessages = &RunSample::messages_per_second;
constexpr Figure kGraphs = &RunSample::graphs_per_second;
constexpr Figure kBytesPerGraph = &RunSample::bytes_per_graph;
constexpr Figure kServerCpuPerGraph = &RunSample::server_cpu_per_graph;
constexpr Figure kClientCpu = &RunSample::client_cpu_per_gigabyte;
constexpr Figure kServerCpu = &RunSample::server_cpu_per_gigabyte;
constexpr Figure kOthers = &RunSample::others;

std::string SizeText(uint64_t bytes) {
  return bytes >= 1 << 20 ? absl::StrCat(bytes >> 20, " MiB") : absl::StrCat(bytes >> 10, " KiB");
}

// `5.12 (4.90-5.30)`.
std::string SpreadText(const Spread& spread, double unit = 1) {
  return absl::StrFormat("%.2f (%.2f-%.2f)", spread.median / unit, spread.low / unit,
                         spread.high / unit);
}

std::string PercentText(const Spread& spread) {
  return absl::StrFormat("%.0f (%.0f-%.0f)", 100 * spread.median, 100 * spread.low,
                         100 * spread.high);
}

uint64_t PeakBytes(const Runs& runs) {
  uint64_t peak = 0;
  for (const RunSample& run : runs) peak = std::max(peak, run.server_peak_bytes);
  return peak;
}

Json JsonOf(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.low}, {"max", spread.high}};
}

double OpeningMedian(const Runs& runs) {
  std::vector<double> openings;
  for (const RunSample& run : runs) {
    openings.insert(openings.end(), run.opening_milliseconds.begin(),
                    run.opening_milliseconds.end());
  }
  return SpreadOf(std::move(openings)).median;
}

void AddFigures(const Runs& runs, Json& json) {
  json["gigabytes_per_second"] = JsonOf(SpreadOf(runs, kGigabytes));
  json["messages_per_second"] = JsonOf(SpreadOf(runs, kMessages));
  json["graphs_per_second"] = JsonOf(SpreadOf(runs, kGraphs));
  json["client_cpu_seconds_per_gigabyte"] = JsonOf(SpreadOf(runs, kClientCpu));
  json["server_cpu_seconds_per_gigabyte"] = JsonOf(SpreadOf(runs, kServerCpu));
  json["cpu_share_of_others"] = JsonOf(SpreadOf(runs, kOthers));
  json["gap_milliseconds_p50"] = GapQuantile(runs, 0.5);
  json["gap_milliseconds_p99"] = GapQuantile(runs, 0.99);
  json["server_peak_bytes"] = PeakBytes(runs);
  const double opening = OpeningMedian(runs);
  if (opening > 0) json["opening_milliseconds"] = opening;
}

Json JsonOf(const std::string& measure, const DeliveryFigures& delivery, const Runs& runs) {
  Json json = {{"measure", measure},
               {"payload_bytes", delivery.payload_bytes},
               {"streams", delivery.streams}};
  AddFigures(runs, json);
  if (&runs != &delivery.download) {
    json["ratio_to_download"] = JsonOf(RatioOf(runs, delivery.download, kGigabytes));
  }
  if (&runs == &delivery.loader || &runs == &delivery.lane) {
    json["ratio_to_load"] = JsonOf(RatioOf(runs, delivery.load, kGigabytes));
  }
  if (&runs == &delivery.pack || &runs == &delivery.pack_lane) {
    json["ratio_to_exchange"] = JsonOf(RatioOf(runs, delivery.exchange, kGigabytes));
  }
  const auto add_declared = [&](const Runs& narrow, const Runs& declared) {
    if (&runs != &narrow) return;
    json["ratio_to_declared"] = JsonOf(RatioOf(narrow, declared, kGraphs));
    json["bytes_ratio_to_declared"] = JsonOf(RatioOf(narrow, declared, kBytesPerGraph));
  };
  add_declared(delivery.narrow_load, delivery.load);
  add_declared(delivery.narrow_pack, delivery.pack);
  json["most_to_least_of_streams"] = JsonOf(UnfairnessOf(runs));
  return json;
}

}  // namespace

BenchMachine ThisMachine(const std::string& congestion) {
  BenchMachine machine;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2) machine.processor = std::string(absl::StripAsciiWhitespace(parts[1]));
    break;
  }
  machine.cores = std::thread::hardware_concurrency();
  utsname names{};
  if (uname(&names) == 0) machine.kernel = absl::StrCat(names.sysname, " ", names.release);
  machine.congestion = congestion;
  machine.date = absl::FormatTime("%Y-%m-%d %H:%M", absl::Now(), absl::UTCTimeZone());
  return machine;
}

std::string Describe(const BenchMachine& machine) {
  return absl::StrFormat("%s, %d cores, %s, TCP %s, %s UTC",
                         machine.processor.empty() ? "unknown processor" : machine.processor,
                         machine.cores, machine.kernel, machine.congestion, machine.date);
}

BenchReport::BenchReport(const BenchMachine& machine, const BenchSettings& settings,
                         const BenchGraphs& graphs, uint64_t dataset_graphs)
    : machine_(machine),
      settings_(settings),
      num_graphs_(graphs.num_graphs),
      bytes_per_graph_(static_cast<double>(graphs.num_bytes) /
                       static_cast<double>(graphs.num_graphs)),
      dataset_graphs_(dataset_graphs) {}

bool BenchReport::IsFirst(const std::string& kind) {
  if (std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end()) return false;
  kinds_.push_back(kind);
  return true;
}

std::string BenchReport::AddTcp(const Runs& runs) {
  Json& json = measures_.emplace_back(Json{{"measure", "tcp"}});
  AddFigures(runs, json);
  return absl::StrFormat("plain TCP: %s GB/s, CPU s/GB %.2f receiving, %.2f sending\n",
                         SpreadText(SpreadOf(runs, kGigabytes)), SpreadOf(runs, kClientCpu).median,
                         SpreadOf(runs, kServerCpu).median);
}

std::string BenchReport::AddDelivery(const DeliveryFigures& delivery) {
  // Rows come one by one, as they are measured: the widths are fixed.
  constexpr char kRow[] = "%-12s %-7s %7s %18s %15s %15s %9s %9s %15s %15s %6s %6s\n";
  std::string text;
  if (IsFirst("delivery")) {
    text = absl::StrFormat(kRow, "", "batch", "streams", "GB/s", "% of download", "% of exchange",
                           "graphs/s", "batches/s", "CPU s/GB", "gap ms", "peak", "others");
    absl::StrAppendFormat(&text, kRow, "", "", "", "", "", "", "", "", "client / server",
                          "p50 / p99", "MiB", "%");
  }
  const auto is_of_graphs = [&](const Runs& runs) {
    return &runs != &delivery.download && &runs != &delivery.exchange;
  };
  const auto add = [&](const std::string& name, const Runs& runs) {
    if (runs.empty()) return;
    measures_.push_back(JsonOf(name, delivery, runs));
    const bool is_pack = &runs == &delivery.pack || &runs == &delivery.pack_lane;
    const bool is_load =
        &runs == &delivery.load || &runs == &delivery.loader || &runs == &delivery.lane;
    absl::StrAppendFormat(
        &text, kRow, name, SizeText(delivery.payload_bytes), absl::StrCat(delivery.streams),
        SpreadText(SpreadOf(runs, kGigabytes)),
        is_pack || is_load ? PercentText(RatioOf(runs, delivery.download, kGigabytes)) : "",
        is_pack ? PercentText(RatioOf(runs, delivery.exchange, kGigabytes)) : "",
        is_of_graphs(runs) ? absl::StrFormat("%.0f", SpreadOf(runs, kGraphs).median) : "",
        absl::StrFormat("%.0f", SpreadOf(runs, kMessages).median),
        absl::StrFormat("%.2f / %.2f", SpreadOf(runs, kClientCpu).median,
                        SpreadOf(runs, kServerCpu).median),
        absl::StrFormat("%.3f / %.3f", GapQuantile(runs, 0.5), GapQuantile(runs, 0.99)),
        absl::StrFormat("%.0f", static_cast<double>(PeakBytes(runs)) / (1 << 20)),
        absl::StrFormat("%.0f", 100 * SpreadOf(runs, kOthers).median));
  };
  add("download", delivery.download);
  add("exchange", delivery.exchange);
  add("load", delivery.load);
  add("compact load", delivery.narrow_load);
  add("loader", delivery.loader);
  add("lane", delivery.lane);
  add("pack", delivery.pack);
  add("pack lane", delivery.pack_lane);
  add("compact pack", delivery.narrow_pack);
  if (!delivery.load.empty()) {
    absl::StrAppendFormat(
        &text, "%-12s an epoch's first batch after %.1f ms; loader has %s %% of load, CPU %s %%\n",
        "", OpeningMedian(delivery.load),
        PercentText(RatioOf(delivery.loader, delivery.load, kGigabytes)),
        PercentText(RatioOf(delivery.loader, delivery.load, kClientCpu)));
  }
  const auto compare = [&](const char* name, const Runs& narrow, const Runs& declared) {
    if (narrow.empty()) return;
    absl::StrAppendFormat(
        &text,
        "%-12s %s has %s times the graphs/s of declared types, %s %% of the bytes a graph (%.0f of "
        "%.0f) and %s %% of the server's CPU a graph\n",
        "", name, SpreadText(RatioOf(narrow, declared, kGraphs)),
        PercentText(RatioOf(narrow, declared, kBytesPerGraph)),
        SpreadOf(narrow, kBytesPerGraph).median, SpreadOf(declared, kBytesPerGraph).median,
        PercentText(RatioOf(narrow, declared, kServerCpuPerGraph)));
  };
  compare("compact load", delivery.narrow_load, delivery.load);
  compare("compact pack", delivery.narrow_pack, delivery.pack);
  return text;
}

std::string BenchReport::AddEpochs(const EpochFigures& epochs) {
  constexpr char kRow[] = "%-12s %-7s %7s %18s %15s %15s %6s\n";
  std::string text =
      absl::StrFormat(kRow, "", "batch", "epoch", "graphs/s", "% of the 1st", "CPU s/GB", "others");
  for (const auto& [name, runs] :
       {std::pair("loader", &epochs.loader), std::pair("lane", &epochs.lane)}) {
    for (std::size_t i = 0; i < runs->size(); ++i) {
      const Runs& epoch = (*runs)[i];
      Json& json = measures_.emplace_back(Json{{"measure", absl::StrCat("epoch by ", name)},
                                               {"payload_bytes", epochs.payload_bytes},
                                               {"epoch", i + 1}});
      AddFigures(epoch, json);
      json["ratio_to_first"] = JsonOf(RatioOf(epoch, runs->front(), kGraphs));
      absl::StrAppendFormat(&text, kRow, name, SizeText(epochs.payload_bytes), absl::StrCat(i + 1),
                            absl::StrFormat("%.0f", SpreadOf(epoch, kGraphs).median),
                            PercentText(RatioOf(epoch, runs->front(), kGraphs)),
                            absl::StrFormat("%.2f / %.2f", SpreadOf(epoch, kClientCpu).median,
                                            SpreadOf(epoch, kServerCpu).median),
                            absl::StrFormat("%.0f", 100 * SpreadOf(epoch, kOthers).median));
    }
  }
  return text;
}

std::string BenchReport::AddFairness(const DeliveryFigures& delivery) {
  std::string text;
  for (const auto& [name, runs] :
       {std::pair("pack", &delivery.pack), std::pair("exchange", &delivery.exchange)}) {
    if (runs->empty()) continue;
    measures_.push_back(JsonOf(absl::StrCat("fairness of ", name), delivery, *runs));
    absl::StrAppendFormat(
        &text,
        "%d streams, %s, %s: most / least bytes of a stream %s, gap ms p50 %.2f, p99 %.2f, "
        "%s GB/s, server at most %.0f MiB\n",
        delivery.streams, SizeText(delivery.payload_bytes), name, SpreadText(UnfairnessOf(*runs)),
        GapQuantile(*runs, 0.5), GapQuantile(*runs, 0.99), SpreadText(SpreadOf(*runs, kGigabytes)),
        static_cast<double>(PeakBytes(*runs)) / (1 << 20));
  }
  return text;
}

std::string BenchReport::AddObservation(const ObserveFigures& observation) {
  constexpr char kRow[] = "%-9s %-7s %-8s %24s %24s %15s %15s\n";
  std::string text;
  if (IsFirst("observation")) {
    text = absl::StrFormat(kRow, "", "chunk", "answered", "million tuples/s", "opaque, the same",
                           "% of it", "server ns/tuple");
  }
  Json& json = measures_.emplace_back(Json{{"measure", "observe"},
                                           {"chunk_tuples", observation.chunk_tuples},
                                           {"chunks_per_answer", observation.chunks_per_answer}});
  AddFigures(observation.observe, json);
  json["ratio_to_upload"] = JsonOf(RatioOf(observation.observe, observation.upload, kGraphs));
  std::vector<double> nanos;
  for (const RunSample& run : observation.observe) {
    nanos.push_back(
        run.graphs == 0 ? 0 : 1e9 * run.server_cpu_seconds / static_cast<double>(run.graphs));
  }
  absl::StrAppendFormat(&text, kRow, "observe", absl::StrCat(observation.chunk_tuples),
                        absl::StrCat("by ", observation.chunks_per_answer),
                        SpreadText(SpreadOf(observation.observe, kGraphs), 1e6),
                        SpreadText(SpreadOf(observation.upload, kGraphs), 1e6),
                        PercentText(RatioOf(observation.observe, observation.upload, kGraphs)),
                        absl::StrFormat("%.1f", SpreadOf(std::move(nanos)).median));
  return text;
}

std::string BenchReport::AddPlanning(const std::vector<PlanFigures>& plans) {
  std::string text;
  for (const PlanFigures& plan : plans) {
    measures_.push_back({{"measure", "plan"},
                         {"heuristic", plan.name},
                         {"calls", plan.milliseconds.size()},
                         {"milliseconds_p50", Quantile(plan.milliseconds, 0.5)},
                         {"milliseconds_p99", Quantile(plan.milliseconds, 0.99)}});
    absl::StrAppendFormat(&text, "plan, %s: p50 %.2f ms, p99 %.2f ms, %d calls\n", plan.name,
                          Quantile(plan.milliseconds, 0.5), Quantile(plan.milliseconds, 0.99),
                          plan.milliseconds.size());
  }
  return text;
}

Json BenchReport::ToJson() const {
  Json machine = {{"processor", machine_.processor},
                  {"cores", machine_.cores},
                  {"kernel", machine_.kernel},
                  {"tcp_congestion", machine_.congestion},
                  {"date", machine_.date},
                  {"runs", settings_.runs},
                  {"seconds", absl::ToDoubleSeconds(settings_.seconds)},
                  {"graphs", num_graphs_},
                  {"graphs_of_data_set", dataset_graphs_},
                  {"bytes_per_graph", bytes_per_graph_}};
  return {{"machine", std::move(machine)}, {"measures", measures_}};
}

}  // namespace packhouse::client
