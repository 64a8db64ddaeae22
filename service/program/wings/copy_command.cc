#include "service/program/wings/copy_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/command_line/table.h"
#include "service/program/byte_flag.h"
#include "service/program/wings/address_flags.h"
#include "service/stores/datasets/dataset_copy.h"
#include "service/wings/cluster/shared/store_uri.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/sealed_graph_store.h"

namespace packhouse {
namespace {

struct CopyArguments {
  std::string from;
  std::string to;
  std::vector<std::string> names;
  std::vector<std::string> graphs;
  bool all = false;
  StoreAddress address;
};

absl::StatusOr<std::vector<std::string>> SealedNames(const DatasetStore& from) {
  std::vector<std::string> names;
  std::string page;
  do {
    const auto list = from.List(/*page_size=*/0, page);
    if (!list.ok()) return list.status();
    for (const DatasetInfo& info : list->datasets) {
      if (info.state == DatasetState::kSealed) {
        names.push_back(info.name);
      } else {
        std::cerr << info.name << ": left out, since it is "
                  << (info.state == DatasetState::kOpen ? "open" : "damaged") << '\n';
      }
    }
    page = list->next_page_token;
  } while (!page.empty());
  return names;
}

absl::StatusOr<std::vector<std::string>> SealedGraphNames(const SealedGraphStore& from) {
  std::vector<std::string> names;
  std::string page;
  do {
    const auto list = from.List(/*page_size=*/0, page);
    if (!list.ok()) return list.status();
    for (const SourceGraphInfo& info : list->graphs) {
      if (info.state == SourceGraphState::kSealed) {
        names.push_back(info.name);
      } else {
        std::cerr << info.name << ": left out, since the source graph is "
                  << (info.state == SourceGraphState::kDamaged ? "damaged" : "open") << '\n';
      }
    }
    page = list->next_page_token;
  } while (!page.empty());
  return names;
}

// The same of source graphs.
absl::Status CopyGraphs(const CopyArguments& arguments, const std::vector<std::string>& names,
                        const SealedGraphStore& from, SealedGraphStore& to) {
  const bool is_watched = ::isatty(STDERR_FILENO) != 0;
  for (const std::string& name : names) {
    const auto graph = from.OpenSealed(name);
    if (!graph.ok()) return graph.status();
    const auto copied = to.CopyIn(*graph, [&](const SourceGraphProgress& now) {
      if (is_watched) {
        std::cerr << '\r' << name << ": " << Grouped(now.done >> 20) << " of "
                  << Grouped(now.total >> 20) << " MiB " << std::flush;
      }
      return true;
    });
    if (is_watched) std::cerr << "\r\033[K";
    if (!copied.ok()) return copied.status();
    std::cout << name << ": a source graph of " << Grouped(copied->num_bytes) << " bytes, of which "
              << Grouped(copied->num_old_bytes) << " were there\n";
  }
  std::cout << arguments.to << ": " << Grouped(names.size()) << " source graphs\n";
  return absl::OkStatus();
}

absl::Status CopySourceGraphs(const CopyArguments& arguments, OpenedStore& from, OpenedStore& to) {
  if (!arguments.all && arguments.graphs.empty()) return absl::OkStatus();
  const auto graphs = from.source_graphs();
  if (!graphs.ok()) return graphs.status();
  if (*graphs == nullptr) {
    if (arguments.graphs.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(arguments.from, " has no source graphs"));
  }
  std::vector<std::string> names = arguments.graphs;
  if (arguments.all) {
    auto sealed = SealedGraphNames(**graphs);
    if (!sealed.ok()) return sealed.status();
    names = *std::move(sealed);
    if (names.empty()) return absl::OkStatus();
  }
  const auto into = to.source_graphs();
  if (!into.ok()) return into.status();
  return CopyGraphs(arguments, names, **graphs, **into);
}

// One after the other, with a line for each.
absl::Status CopyAll(const CopyArguments& arguments, const std::vector<std::string>& names,
                     const DatasetStore& from, DatasetStore& to) {
  const bool is_watched = ::isatty(STDERR_FILENO) != 0;
  for (const std::string& name : names) {
    const auto copied =
        CopyDataset(from, to, name, [&](const DatasetCopy& now, const DatasetInfo& of) {
          if (is_watched) {
            std::cerr << '\r' << name << ": " << Grouped(now.num_graphs) << " of "
                      << Grouped(of.num_graphs) << " graphs " << std::flush;
          }
          return true;
        });
    if (is_watched) std::cerr << "\r\033[K";
    if (!copied.ok()) return copied.status();
    std::cout << name << ": " << Grouped(copied->num_graphs) << " graphs in "
              << Grouped(copied->num_records) << " records, of which "
              << Grouped(copied->num_old_records) << " were there\n";
  }
  std::cout << arguments.to << ": " << Grouped(names.size()) << " data sets\n";
  return absl::OkStatus();
}

ExitCode RunCopy(const CopyArguments& arguments) {
  const bool has_names = !arguments.names.empty() || !arguments.graphs.empty();
  if (arguments.all == has_names) {
    return Misuse(absl::InvalidArgumentError(
        "names of data sets, --source-graph with one of a source graph, or --all"));
  }
  const SystemClock clock;
  const auto open = [&](const std::string& uri, bool may_make) {
    StoreAddress address = arguments.address;
    address.uri = uri;
    if (address.shared.max_bytes != 0) address.max_bytes = address.shared.max_bytes;
    return OpenStore(address, may_make, &clock);
  };
  const auto from = open(arguments.from, /*may_make=*/false);
  if (!from.ok()) return Fail(from.status());
  const auto to = open(arguments.to, /*may_make=*/true);
  if (!to.ok()) return Fail(to.status());
  std::vector<std::string> names = arguments.names;
  if (arguments.all) {
    const auto sealed = SealedNames(*(*from)->store());
    if (!sealed.ok()) return Fail(sealed.status());
    names = *sealed;
  }
  absl::Status copied;
  if (arguments.all || !names.empty()) {
    copied = CopyAll(arguments, names, *(*from)->store(), *(*to)->store());
  }
  if (copied.ok()) copied = CopySourceGraphs(arguments, **from, **to);
  return copied.ok() ? kExitOk : Fail(copied);
}

}  // namespace

void AddCopyCommand(CLI::App& store, ExitCode& code) {
  const auto arguments = std::make_shared<CopyArguments>();
  CLI::App* const copy = store.add_subcommand(
      "copy",
      "Copy sealed data sets and source graphs to another store. Run it again if it was stopped: "
      "what is there is not copied again. Copies of data sets have new versions; partitions of "
      "source graphs are not copied");
  copy->add_option("from", arguments->from,
                   "lmdb:DIR, a --data-dir that no server has open; or s3://BUCKET[/PREFIX]")
      ->required()
      ->type_name("STORE");
  copy->add_option("to", arguments->to, "The same")->required()->type_name("STORE");
  copy->add_option("names", arguments->names, "Data sets")->type_name("NAME");
  copy->add_option("--source-graph", arguments->graphs, "A source graph; may be given again")
      ->type_name("NAME")
      ->allow_extra_args(false);
  copy->add_flag("--all", arguments->all, "All sealed data sets and source graphs");
  copy->add_option(
          "--max-store-bytes", arguments->address.shared.max_bytes,
          "Most bytes of lmdb:DIR, of its data sets and of its source graphs, 64 GiB if it is not "
          "given; for s3:// as of its servers, which have it or not")
      ->transform(BytesFrom(1, uint64_t{1} << 45));
  AddAddressFlags(arguments->address, *copy);
  copy->callback([arguments, &code] { code = RunCopy(*arguments); });
}

}  // namespace packhouse
