#include "service/wings/cluster/shared/store_uri.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/access/security/small_file.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/wings/cluster/etcd/etcd_options.h"
#include "service/wings/cluster/etcd/etcd_store.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"

namespace packhouse {
namespace {

absl::StatusOr<std::string> PemOf(const std::string& path) {
  if (path.empty()) return "";
  return security::ReadSmallFile(path);
}

class EmbeddedStore final : public OpenedStore {
 public:
  EmbeddedStore(std::unique_ptr<LmdbDatasetStore> store, FileSourceGraphStore::Options graphs,
                bool may_make)
      : store_(std::move(store)), graphs_options_(std::move(graphs)), may_make_(may_make) {}
  DatasetStore* store() override { return store_.get(); }
  absl::StatusOr<SealedGraphStore*> source_graphs() override {
    if (graphs_ == nullptr) {
      std::error_code error;
      if (!may_make_ && !std::filesystem::is_directory(graphs_options_.folder, error)) {
        return nullptr;
      }
      PH_ASSIGN_OR_RETURN(graphs_, FileSourceGraphStore::Open(graphs_options_));
    }
    return graphs_.get();
  }

 private:
  const std::unique_ptr<LmdbDatasetStore> store_;
  const FileSourceGraphStore::Options graphs_options_;
  const bool may_make_;
  std::unique_ptr<FileSourceGraphStore> graphs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KeyValueStore>> ConnectLedger(const LedgerAddress& address) {
  PH_ASSIGN_OR_RETURN(EtcdOptions etcd, ParseEtcdUri(address.uri));
  PH_ASSIGN_OR_RETURN(etcd.roots, PemOf(address.roots_file));
  PH_ASSIGN_OR_RETURN(etcd.certificate, PemOf(address.certificate_file));
  PH_ASSIGN_OR_RETURN(etcd.key, PemOf(address.key_file));
  const std::pair<std::string, std::string> words =
      absl::StrSplit(address.user, absl::MaxSplits(':', 1));
  etcd.user = words.first;
  etcd.password = words.second;
  etcd.timeout = address.timeout;
  return EtcdStore::Make(std::move(etcd));
}

absl::StatusOr<std::unique_ptr<SharedStore>> SharedStore::Open(const StoreAddress& address,
                                                               SharedDatasets::Binding binding,
                                                               const Clock* clock) {
  if (address.ledger.uri.empty()) {
    return absl::InvalidArgumentError("a store in S3 needs --ledger etcd://HOST,...");
  }
  auto opened = absl::WrapUnique(new SharedStore);
  PH_ASSIGN_OR_RETURN(opened->keys_, ConnectLedger(address.ledger));
  SharedDatasetsOptions options = address.shared;
  options.uri = address.uri;
  PH_RETURN_IF_ERROR(CheckS3Endpoint(S3EndpointOr(options.endpoint, S3RegionOr(options.region)),
                                     address.allows_plain_text));
  opened->folder_ = address.cache_parent + "/packhouse-cache-XXXXXX";
  if (::mkdtemp(opened->folder_.data()) == nullptr) {
    const int error = errno;
    opened->folder_.clear();
    return DiskStatus(error, "make a folder in", address.cache_parent);
  }
  options.cache_folder = opened->folder_;
  PH_ASSIGN_OR_RETURN(opened->shared_,
                      SharedDatasets::Open(options, opened->keys_.get(), clock, binding));
  return opened;
}

SharedStore::~SharedStore() {
  shared_ = nullptr;
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

absl::StatusOr<std::unique_ptr<OpenedStore>> OpenStore(const StoreAddress& address, bool may_make,
                                                       const Clock* clock) {
  absl::string_view folder = address.uri;
  if (absl::ConsumePrefix(&folder, "lmdb:") && !folder.empty()) {
    LmdbDatasetStore::Options options;
    options.folder = DatasetsFolder(std::string(folder));
    options.max_bytes = address.max_bytes;
    std::error_code error;
    if (may_make) {
      PH_RETURN_IF_ERROR(MakeFolder(std::string(folder)));
    } else if (!std::filesystem::is_directory(options.folder, error)) {
      return absl::NotFoundError(
          absl::StrCat(Quoted(folder), " is no data folder: there are no data sets in it"));
    }
    PH_RETURN_IF_ERROR(CheckRestored(std::string(folder)));
    PH_ASSIGN_OR_RETURN(auto store, LmdbDatasetStore::Open(options));
    FileSourceGraphStore::Options graphs;
    graphs.folder = SourceGraphsFolder(std::string(folder));
    graphs.max_bytes = address.max_bytes;
    return std::make_unique<EmbeddedStore>(std::move(store), std::move(graphs), may_make);
  }
  if (!absl::StartsWith(address.uri, "s3://")) {
    return absl::InvalidArgumentError(
        "a store is lmdb:DIR, a server's data folder, or s3://BUCKET[/PREFIX]");
  }
  return SharedStore::Open(address, SharedDatasets::Binding::kNow, clock);
}

}  // namespace packhouse
