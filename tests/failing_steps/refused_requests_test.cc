// An answer of stores that servers share is whole, or it is the refusal: whichever request for keys
// or objects is refused, and with whichever code. What was refused has not happened, and the same
// call is answered once nothing is refused any more.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/engine/jobs/jobs.h"
#include "service/stores/keys/replica_lease.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/object_source_graph_store.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/cluster/histograms/shared_histogram_store.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/objects/fake_object_store.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

using Answer = absl::StatusOr<std::string>;

template <typename World>
struct Call {
  const char* name;
  // The same in every world, whatever numbers are drawn.
  Answer (*ask)(World& world);
  // An ownership that is given back is gone whatever is answered.
  bool again = true;
};

// The law. A world is made with `Refusals*`, before anything is refused.
template <typename World>
void ExpectWholeOrRefused(const std::vector<Call<World>>& calls) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInternal, absl::StatusCode::kPermissionDenied}) {
    for (const Call<World>& call : calls) {
      Refusals refusals(code);
      std::string whole;
      {
        World world(&refusals);
        refusals.Begin(-1);
        const Answer answer = call.ask(world);
        ASSERT_TRUE(answer.ok()) << call.name << ": " << answer.status();
        whole = *answer;
      }
      const int num_requests = refusals.num_requests();
      EXPECT_GT(num_requests, 0) << call.name;
      int num_refused = 0;
      for (int step = 0; step < num_requests; ++step) {
        SCOPED_TRACE(absl::StrCat(call.name, ", request ", step, " of ", num_requests, ", code ",
                                  static_cast<int>(code)));
        World world(&refusals);
        refusals.Begin(step);
        const Answer answer = call.ask(world);
        refusals.Begin(-1);
        if (answer.ok()) {
          EXPECT_EQ(*answer, whole);
          continue;
        }
        ++num_refused;
        EXPECT_TRUE(answer.status().code() == code || absl::IsUnavailable(answer.status()))
            << answer.status();
        EXPECT_THAT(answer.status().message(), HasSubstr(kWhy));
        if (!call.again) continue;
        const Answer again = call.ask(world);
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(*again, whole);
      }
      EXPECT_GT(num_refused, 0) << call.name;
    }
  }
}

// The answer of a call that says no more than that it was done.
Answer Done(const absl::Status& status) {
  PH_RETURN_IF_ERROR(status);
  return "done";
}

// Of a sweep, the objects that are left when all were looked at.
template <typename Sweeper>
Answer LeftAfter(Sweeper& sweeper, const FakeObjectStore& objects) {
  while (true) {
    PH_ASSIGN_OR_RETURN(const auto step, sweeper.Run());
    if (step.is_round_over) return absl::StrCat(objects.num_objects());
  }
}

ObjectSweeper::Options EvenYoung() {
  ObjectSweeper::Options options;
  options.min_age = absl::ZeroDuration();
  return options;
}

// A server whose requests are refused, and the stores that it shares.
struct SharedWorld {
  explicit SharedWorld(Refusals* refusals)
      : keys(&to_keys, refusals), refusing(&objects, refusals) {
    cluster.keys.SetForgetful(false);
  }
  // By a server that is refused nothing.
  void Bind() { EXPECT_TRUE(BindStores(replica.engines()).ok()); }
  ObjectEngines engines() {
    ObjectEngines engines = replica.engines();
    engines.keys = &keys;
    engines.objects = &refusing;
    return engines;
  }

  const TemporaryFolder folder{TemporaryFolder::InMemory()};
  ObjectCluster cluster;
  FakeObjectStore objects{&cluster.clock};
  FakeConnection to_keys{&cluster.keys};
  RefusingKeys keys;
  RefusingObjects refusing;
  ObjectReplica replica{&cluster, &objects, folder.path() + "/cache", Options()};

  static ObjectDatasetStore::Options Options() {
    ObjectDatasetStore::Options options;
    options.chunks_of_page = 2;
    options.fetches_at_once = 1;
    // So that what all have together is counted.
    options.max_bytes = uint64_t{1} << 40;
    return options;
  }
};

// "a" is sealed: a page of two objects, and one more. "b" is open, with one. "c" was deleted.
struct DatasetWorld : SharedWorld {
  explicit DatasetWorld(Refusals* refusals) : SharedWorld(refusals) {
    Bind();
    DatasetStore& others = replica.store();
    for (const char* const name : {"a", "b", "c"}) {
      EXPECT_TRUE(others.Create(name, schema, {}).ok());
      for (uint64_t sequence = 1; sequence <= (*name == 'a' ? 3U : 1U); ++sequence) {
        EXPECT_TRUE(Append(others, name, {"p", sequence}).ok());
      }
    }
    EXPECT_TRUE(others.Seal("a").ok());
    EXPECT_TRUE(others.Delete("c").ok());
    cluster.clock.Advance(absl::Milliseconds(1));
  }
  Answer Append(DatasetStore& to, absl::string_view name, const ProducerSequence& producer) {
    Random random(producer.sequence);
    PH_ASSIGN_OR_RETURN(
        const AppendResult result,
        to.Append(name, RandomChunk(random, &schema, 4, 9, 10 * producer.sequence), {}, producer));
    return absl::StrCat(result.num_appended, " of ", result.num_graphs);
  }

  const GraphSchema schema =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}});
  ObjectDatasetStore store{engines(), &replica.cache(), Options()};
  ObjectSweeper sweeper{engines(), EvenYoung()};
};

std::string Told(const DatasetInfo& info) {
  return absl::StrCat(info.name, " ", static_cast<int>(info.state), " ", info.num_graphs, " ",
                      info.num_bytes, " ");
}

Answer Told(const absl::StatusOr<DatasetInfo>& info) {
  PH_RETURN_IF_ERROR(info.status());
  return Told(*info);
}

Answer Told(const absl::StatusOr<SizeHistogram>& histogram) {
  PH_RETURN_IF_ERROR(histogram.status());
  return absl::StrCat(histogram->num_graphs(), " of ", histogram->num_distinct());
}

Answer Told(const absl::StatusOr<std::shared_ptr<const DatasetReader>>& reader) {
  PH_RETURN_IF_ERROR(reader.status());
  for (size_t i = 0; i < (*reader)->graph_ids().size(); ++i) {
    PH_RETURN_IF_ERROR((*reader)->Graph(i).status());
  }
  return absl::StrJoin((*reader)->graph_ids(), " ");
}

TEST(RefusedRequestsTest, OfDatasets) {
  using World = DatasetWorld;
  ExpectWholeOrRefused<World>({
      {"create", [](World& w) { return Told(w.store.Create("d", w.schema, {})); }},
      {"append",
       [](World& w) {
         return w.Append(w.store, "b", {"q", 7});
       }},
      {"append of a made-up producer",
       [](World& w) {
         return w.Append(w.store, "b", {"m", 8, absl::Hours(1), w.cluster.clock.Now()});
       }},
      {"repeated append",
       [](World& w) {
         return w.Append(w.store, "a", {"p", 3});
       }},
      {"producer",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const ProducerHistory history, w.store.GetProducer("a", "p"));
         return absl::StrCat(history.last());
       }},
      {"seal", [](World& w) { return Told(w.store.Seal("b")); }},
      {"get", [](World& w) { return Told(w.store.Get("a")); }},
      {"histogram", [](World& w) { return Told(w.store.GetHistogram("a")); }},
      {"list",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const DatasetList list, w.store.List(0, ""));
         std::string told;
         for (const DatasetInfo& info : list.datasets) told += Told(info);
         return told;
       }},
      {"delete", [](World& w) { return Done(w.store.Delete("a")); }},
      {"read", [](World& w) { return Told(w.store.OpenReader("a")); }},
      {"read chunks",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto chunks, w.store.OpenChunks("a"));
         SizeHistogram histogram(2);
         for (const uint32_t i : {0, 1, 2}) PH_RETURN_IF_ERROR(chunks->AddSizes(i, histogram));
         PH_ASSIGN_OR_RETURN(const std::string read, Told(chunks->Open({1, 2})));
         return absl::StrCat(histogram.num_graphs(), ": ", read);
       }},
      {"verify",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const VerifyReport report,
                             w.store.Verify("a", [](const VerifyProgress&) { return true; }));
         return absl::StrCat(report.num_graphs, ", ", report.num_damaged, " damaged");
       }},
      {"sweep", [](World& w) { return LeftAfter(w.sweeper, w.objects); }},
      {"whether they are bound", [](World& w) { return Done(CheckStoresAreBound(w.engines())); }},
  });
}

TEST(RefusedRequestsTest, OfStoresThatAreBound) {
  using World = SharedWorld;
  static constexpr auto kBoundAs = +[](World& w, const absl::Status& bound) -> Answer {
    PH_RETURN_IF_ERROR(bound);
    return Done(CheckStoresAreBound(w.replica.engines()));
  };
  ExpectWholeOrRefused<World>({
      {"bind", [](World& w) { return kBoundAs(w, BindStores(w.engines())); }},
      {"bind now or later",
       [](World& w) {
         BoundObjectStore objects(&w.refusing);
         return kBoundAs(w, BindStoresNowOrLater(w.engines(), objects));
       }},
  });
}

// "a" is sealed, "b" is open.
struct GraphWorld : SharedWorld {
  explicit GraphWorld(Refusals* refusals) : SharedWorld(refusals) {
    Bind();
    FileSourceGraphStore::Options files;
    files.folder = folder.path() + "/files";
    files.min_free_bytes = 0;
    building = FileSourceGraphStore::Open(files).value();
    ObjectSourceGraphStore::Options options;
    options.upload.piece_bytes = 4096;
    options.upload.max_bytes = uint64_t{1} << 40;
    options.max_cache_bytes = uint64_t{1} << 30;
    options.fetches_at_once = 1;
    options.server = "here";
    options.building = building.get();
    others = std::make_unique<ObjectSourceGraphStore>(replica.engines(), &replica.cache(), options);
    store = std::make_unique<ObjectSourceGraphStore>(engines(), &replica.cache(), options);
    for (const char* const name : {"a", "b"}) {
      EXPECT_TRUE(others->Create(name, LawSchema(), LawOptions()).ok());
      EXPECT_TRUE(Append(*others, name).ok());
    }
    EXPECT_TRUE(others->Seal("a", SealOptions(), GoOn).ok());
    cluster.clock.Advance(absl::Milliseconds(1));
  }
  static Answer Append(ObjectSourceGraphStore& to, absl::string_view name) {
    SeededRandom random(5);
    const RowsOfGraph rows = RandomRows(random, 30, 150);
    const ChunkOfRows chunk(LawSchema(), LawOptions(), rows);
    PH_ASSIGN_OR_RETURN(const SourceAppendResult result,
                        to.Append({name, 0}, chunk.chunk(), ProducerSequence{"p", 1}));
    return absl::StrCat(result.total_nodes, " ", result.total_edges);
  }
  static bool GoOn(const SourceGraphProgress& /*progress*/) { return true; }

  std::unique_ptr<FileSourceGraphStore> building;
  std::unique_ptr<ObjectSourceGraphStore> others;
  std::unique_ptr<ObjectSourceGraphStore> store;
  SourceGraphSweeper sweeper{engines(), EvenYoung()};
};

Answer Told(const absl::StatusOr<SourceGraphInfo>& info) {
  PH_RETURN_IF_ERROR(info.status());
  return absl::StrCat(info->name, " ", static_cast<int>(info->state), " ", info->num_bytes, " ",
                      absl::StrJoin(info->num_edges, "+"), " ");
}

TEST(RefusedRequestsTest, OfSourceGraphs) {
  using World = GraphWorld;
  ExpectWholeOrRefused<World>({
      {"create", [](World& w) { return Told(w.store->Create("d", LawSchema(), LawOptions())); }},
      {"append", [](World& w) { return World::Append(*w.store, "b"); }},
      {"repeated append", [](World& w) { return World::Append(*w.store, "a"); }},
      {"producer",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const ProducerHistory sealed, w.store->GetProducer("a", "p"));
         PH_ASSIGN_OR_RETURN(const ProducerHistory open, w.store->GetProducer("b", "p"));
         return absl::StrCat(sealed.last(), " ", open.last());
       }},
      {"seal", [](World& w) { return Told(w.store->Seal("b", SealOptions(), World::GoOn)); }},
      {"get", [](World& w) { return Told(w.store->Get("a")); }},
      {"list",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const SourceGraphList list, w.store->List(0, ""));
         std::string told;
         for (const SourceGraphInfo& info : list.graphs) told += *Told(info);
         return told;
       }},
      {"delete", [](World& w) { return Done(w.store->Delete("a")); }},
      {"delete an open one", [](World& w) { return Done(w.store->Delete("b")); }},
      {"read",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto graph, w.store->Open("a"));
         PH_ASSIGN_OR_RETURN(const auto there, w.store->OpenIfHere("a"));
         return Read(*graph) == Read(*there) ? Told(graph->info()) : "others";
       }},
      {"verify",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto report, w.store->Verify("a", World::GoOn));
         return absl::StrCat(report.num_bytes, ", ", report.num_damaged, " damaged");
       }},
      {"remove what was built", [](World& w) { return Done(w.store->RemoveAllBuilt()); }},
      {"sweep",
       [](World& w) {
         w.others->Delete("a").IgnoreError();
         return LeftAfter(w.sweeper, w.objects);
       }},
  });
}

// Beside them, companions of "a": "whole", and "begun", which nobody has put yet.
struct CompanionWorld : GraphWorld {
  explicit CompanionWorld(Refusals* refusals) : GraphWorld(refusals) {
    ObjectCompanions::Options options;
    options.upload.piece_bytes = 4096;
    options.upload.max_bytes = uint64_t{1} << 40;
    options.fetches_at_once = 1;
    options.server = "here";
    of_others = std::make_unique<ObjectCompanions>(replica.engines(), &replica.cache(), options);
    companions = std::make_unique<ObjectCompanions>(engines(), &replica.cache(), options);
    graph = {"a", others->Get("a")->id};
    std::ofstream(folder.path() + "/file") << bytes;
    whole.name = "whole";
    begun.name = "begun";
    for (SharedCompanion* const each : {&whole, &begun}) {
      each->graph = graph;
      each->state = "begun";
      each->revision = of_others->Put(*each).value();
    }
    EXPECT_TRUE(Upload(*of_others, whole).ok());
    whole = *of_others->Find(graph, "whole");
  }
  absl::Status Upload(
      ObjectCompanions& by, const SharedCompanion& companion,
      absl::FunctionRef<bool()> goes_on = [] { return true; }) {
    return by.Upload(companion, folder.path(), {{{"file", bytes.size(), Crc32c(bytes)}}, "summary"},
                     goes_on);
  }
  // What others have then.
  Answer Seen(const std::string& name) {
    PH_ASSIGN_OR_RETURN(const SharedCompanion seen, of_others->Find(graph, name));
    return absl::StrCat(seen.name, " ", seen.state, " ", seen.progress, " ", seen.num_bytes);
  }

  const std::string bytes = std::string(5000, 'b') + std::string(5000, 'c');
  CompanionGraph graph;
  SharedCompanion whole;
  SharedCompanion begun;
  std::unique_ptr<ObjectCompanions> of_others;
  std::unique_ptr<ObjectCompanions> companions;
};

TEST(RefusedRequestsTest, OfCompanions) {
  using World = CompanionWorld;
  ExpectWholeOrRefused<World>({
      {"find",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const SharedCompanion found, w.companions->Find(w.graph, "whole"));
         return absl::StrCat(found.name, " ", found.state, " ", found.num_bytes);
       }},
      {"list",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto list, w.companions->List(w.graph));
         PH_ASSIGN_OR_RETURN(const auto all, w.companions->ListAll());
         return absl::StrCat(list.size(), " ", all.size());
       }},
      {"claim",
       [](World& w) -> Answer {
         SharedCompanion wanted = w.begun;
         wanted.name = "new";
         wanted.revision = 0;
         PH_RETURN_IF_ERROR(w.companions->Put(wanted).status());
         return w.Seen("new");
       }},
      {"tell",
       [](World& w) -> Answer {
         PH_RETURN_IF_ERROR(w.companions->Tell(w.begun, "half"));
         return w.Seen("begun");
       }},
      {"upload",
       [](World& w) -> Answer {
         PH_RETURN_IF_ERROR(w.Upload(*w.companions, w.begun));
         return w.Seen("begun");
       }},
      {"upload that others have begun",
       [](World& w) -> Answer {
         int left = 2;
         w.Upload(*w.of_others, w.begun, [&] { return --left > 0; }).IgnoreError();
         PH_RETURN_IF_ERROR(w.Upload(*w.companions, w.begun));
         return w.Seen("begun");
       }},
      {"delete", [](World& w) { return Done(w.companions->Delete(w.graph, "whole")); }},
      {"remove those of a graph that is gone",
       [](World& w) -> Answer {
         w.others->Delete("a").IgnoreError();
         PH_RETURN_IF_ERROR(w.companions->RemoveGone());
         PH_ASSIGN_OR_RETURN(const auto left, w.of_others->ListAll());
         return absl::StrCat(left.size());
       }},
      {"contents",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const CompanionContents contents, w.companions->ContentsOf(w.whole));
         return absl::StrCat(contents.files.size(), contents.summary);
       }},
      {"map",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const OwnedBytes part, w.companions->Map(w.whole, "file", 4000, 2000));
         return std::string(part.bytes);
       }},
      {"verify",
       [](World& w) -> Answer {
         const auto key = w.to_keys.Get(CompanionKey(w.graph.id, "whole"));
         return Done(w.companions->Verify(DecodeCompanion(**key).value()));
       }},
  });
}

// "h" has a base, and a run behind it.
struct HistogramWorld {
  explicit HistogramWorld(Refusals* refusals) : keys(&connection, refusals) {
    servers.SetForgetful(false);
    static const FakeKeyValueServers::Backup* const made = [this] {
      EXPECT_TRUE(Count(others, "h", kForABase, 1).ok());
      EXPECT_TRUE(Count(others, "h", 2, 2).ok());
      return new FakeKeyValueServers::Backup(servers.TakeBackup());
    }();
    servers.Restore(*made);
  }
  static HistogramKey Named(std::string name) {
    return {std::move(name), SizeSchema::NodesAndEdges(), absl::InfiniteDuration()};
  }
  // Of some 11 bytes each.
  static SizeHistogram Sizes(uint32_t distinct) {
    SizeHistogram sizes(2);
    for (uint32_t i = 0; i < distinct; ++i) {
      sizes.Add({~i, ~uint32_t{0} - 2 * i}, 1).IgnoreError();
    }
    return sizes;
  }
  // What others have then, too.
  Answer Seen(const std::string& name) {
    const auto seen = others.Get(name, absl::UnixEpoch());
    EXPECT_TRUE(seen.ok()) << seen.status();
    return seen.ok() ? absl::StrCat(seen->histogram.num_graphs()) : "nothing";
  }
  Answer Count(SharedHistogramStore& in, const std::string& name, uint32_t distinct,
               uint64_t sequence) {
    PH_ASSIGN_OR_RETURN(
        const CountedGraphs counted,
        in.Merge(Named(name), Sizes(distinct), ProducerSequence{"p", sequence}, absl::UnixEpoch()));
    PH_ASSIGN_OR_RETURN(const std::string seen, Seen(name));
    return absl::StrCat(counted.num_graphs, ", others see ", seen);
  }

  static constexpr uint32_t kForABase = 7000;

  SimulatedClock clock;
  FakeKeyValueServers servers{&clock};
  FakeConnection connection{&servers};
  RefusingKeys keys;
  SharedHistogramStore others{&connection, {"others", {}, nullptr}, nullptr};
  SharedHistogramStore store{&keys, {"here", {}, nullptr}, nullptr};
};

TEST(RefusedRequestsTest, OfHistograms) {
  using World = HistogramWorld;
  ExpectWholeOrRefused<World>({
      {"schema",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const SizeSchema schema, w.store.SchemaOf("h"));
         return absl::StrJoin(schema.components(), " ");
       }},
      {"get",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto now, w.store.Get("h", absl::UnixEpoch()));
         return Told(now.histogram);
       }},
      {"producer",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const ProducerHistory history, w.store.GetProducer("h", "p"));
         return absl::StrCat(history.last());
       }},
      {"count", [](World& w) { return w.Count(w.store, "h", 3, 3); }},
      {"count what makes a base",
       [](World& w) { return w.Count(w.store, "h", World::kForABase, 3); }},
      {"count in a new one", [](World& w) { return w.Count(w.store, "new", 3, 1); }},
      {"count again", [](World& w) { return w.Count(w.store, "h", 2, 2); }},
      {"subtract",
       [](World& w) -> Answer {
         PH_RETURN_IF_ERROR(w.store
                                .Subtract(World::Named("h"), World::Sizes(3),
                                          ProducerSequence{"q", 1}, absl::UnixEpoch())
                                .status());
         return w.Seen("h");
       }},
      {"delete", [](World& w) { return Done(w.store.Delete("h")); }},
  });
}

// Nobody has used "h" for so long that the next sweep deletes it.
struct UnusedHistogramWorld : HistogramWorld {
  explicit UnusedHistogramWorld(Refusals* refusals) : HistogramWorld(refusals) {
    static const int num_sweeps = [this] {
      int done = 0;
      while (Sweep().value() != "gone") ++done;
      return done;
    }();
    if (IsGone()) return;
    for (int i = 0; i < num_sweeps; ++i) EXPECT_EQ(Sweep().value(), "there");
  }
  bool IsGone() { return absl::IsNotFound(others.SchemaOf("h").status()); }
  Answer Sweep() {
    clock.Advance(absl::Minutes(10));
    std::vector<Expired> expired;
    PH_RETURN_IF_ERROR(sweeping.SweepUnused(expired));
    return IsGone() ? "gone" : "there";
  }

  SharedHistogramStore sweeping{
      &keys,
      {"sweeping", {}, nullptr, *ParseRetention("8h"), [this] { return clock.Now(); }},
      nullptr};
};

TEST(RefusedRequestsTest, OfASweepOfHistograms) {
  // The first one counts how many sweeps it takes.
  Refusals none(absl::StatusCode::kInternal);
  UnusedHistogramWorld first(&none);
  ExpectWholeOrRefused<UnusedHistogramWorld>(
      {{"sweep", [](UnusedHistogramWorld& w) { return w.Sweep(); }}});
}

// Two servers, of which this one owns a job whose log has three entries, and something behind them
// that a change has left which was never made.
struct JobWorld {
  explicit JobWorld(Refusals* refusals) : keys(&connection, refusals) {
    servers.SetForgetful(false);
    EXPECT_TRUE(other.Tick().ok());
    EXPECT_TRUE(lease.Tick().ok());
    const std::vector<ClusterMember> members = lease.members();
    while (jobs.size() < 3) {
      const std::string name = absl::StrCat("job", ++num_names);
      if (RendezvousOwner(name, members)->address == lease.address()) jobs.push_back(name);
    }
    log = std::move(logs.Open(jobs[0])->log);
    EXPECT_TRUE(log->Append({std::string(1 << 20, 'a'), "b"}).ok());
    EXPECT_TRUE(log->Append({"c"}).ok());
    // That of a server which was killed, and ran at this one's address.
    const StoreLease killed = *connection.GrantLease(absl::Hours(1));
    EXPECT_TRUE(
        EtcdRecordLog::Acquire(&connection, {jobs[1], lease.address(), "k-1", killed.id}).ok());
    for (const std::string& job : jobs) EXPECT_TRUE(logs.directory()->Put({job, 1, 2, 3}).ok());
  }
  // What others read of the log.
  Answer Seen() {
    const auto read = EtcdRecordLog::Read(connection, jobs[0]);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? Told(*read) : "nothing";
  }
  static std::string Told(const std::vector<std::string>& records) {
    return absl::StrJoin(records, " ", [](std::string* out, const std::string& record) {
      absl::StrAppend(out, record.size());
    });
  }
  Answer SeenAfter(const absl::Status& changed) {
    PH_RETURN_IF_ERROR(changed);
    return Seen();
  }
  Answer Opened(const std::string& job) {
    PH_ASSIGN_OR_RETURN(const JobPlace place, logs.Open(job));
    return place.log == nullptr ? place.owner.address : "here";
  }

  SimulatedClock clock;
  FakeKeyValueServers servers{&clock};
  FakeConnection connection{&servers};
  RefusingKeys keys;
  ReplicaLease other{&connection, {"o", "other:1"}, [this] { return clock.Now(); }};
  ReplicaLease lease{&keys, {"r", "here:1"}, [this] { return clock.Now(); }};
  EtcdJobLogs logs{&keys, &lease, "r", uint64_t{4} << 20};
  packhouse::DatasetWorld dataset{1};
  EpochCatalog catalog{&dataset.store(), EpochBounds()};
  Loader loader{&catalog};
  std::unique_ptr<Jobs> all = Jobs::Create(&loader, &logs, JobsOptions(), nullptr).value();
  int num_names = 0;
  std::vector<std::string> jobs;
  std::unique_ptr<RecordLog> log;
};

TEST(RefusedRequestsTest, OfJobs) {
  using World = JobWorld;
  ExpectWholeOrRefused<World>({
      {"open", [](World& w) { return w.Opened(w.jobs[2]); }},
      {"open what a killed server had", [](World& w) { return w.Opened(w.jobs[1]); }},
      {"open as a server does",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const Jobs::Place place, w.all->Open(w.jobs[2]));
         return place.job == nullptr ? place.owner.address : "here";
       }},
      {"list with owners",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const JobList list,
                             w.all->List(10, "", [](const std::string&) { return true; }));
         std::string told;
         for (const JobSummary& job : list.jobs) absl::StrAppend(&told, job.name, job.owner, " ");
         return told;
       }},
      {"read",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto records, w.logs.Read(w.jobs[0]));
         return World::Told(records);
       }},
      {"read all",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto records, w.log->ReadAll());
         return World::Told(records);
       }},
      {"append",
       [](World& w) {
         return w.SeenAfter(w.log->Append({std::string(2 << 20, 'd'), "e"}));
       }},
      {"replace",
       [](World& w) {
         return w.SeenAfter(w.log->Replace({std::string(2 << 20, 'd'), "e"}));
       }},
      {"release", [](World& w) { return w.SeenAfter(w.log->Release()); }, false},
      {"move", [](World& w) { return w.SeenAfter(w.log->MoveTo("other:1")); }, false},
      {"erase", [](World& w) { return w.SeenAfter(w.log->Erase(5)); }, false},
      {"owner",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const JobOwner owner, w.logs.OwnerOf(w.jobs[0]));
         return owner.address;
       }},
      {"list",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const JobPage page, w.logs.directory()->List("", 10));
         return absl::StrCat(page.jobs.size(), page.next);
       }},
      {"owners",
       [](World& w) -> Answer {
         const std::vector<std::string> many(150, w.jobs[0]);
         PH_ASSIGN_OR_RETURN(const auto owners, w.logs.directory()->Owners(many));
         return absl::StrJoin(owners, " ");
       }},
      {"put",
       [](World& w) {
         return Done(w.logs.directory()->Put({"x", 1, 2, 3}));
       }},
      {"remove", [](World& w) { return Done(w.logs.directory()->Remove(w.jobs[0])); }},
      {"remove one that is owned",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const bool removed, w.logs.directory()->RemoveUnowned(w.jobs[0]));
         return removed ? "removed" : "owned";
       }},
      {"keep the lease", [](World& w) { return Done(w.lease.Tick()); }},
      {"members",
       [](World& w) -> Answer {
         PH_ASSIGN_OR_RETURN(const auto members, w.lease.ReadMembers());
         return absl::StrCat(members.size());
       }},
      {"take the address of one that was killed",
       [](World& w) -> Answer {
         ReplicaLease killed(&w.connection, {"k", "here:1"}, [&w] { return w.clock.Now(); });
         EXPECT_TRUE(killed.Tick().ok());
         EXPECT_TRUE(
             killed.CheckIsAlone([](const std::string&) { return false; }, [](absl::Duration) {})
                 .ok());
         PH_RETURN_IF_ERROR(
             w.lease.CheckIsAlone([](const std::string&) { return true; }, [](absl::Duration) {}));
         return absl::StrCat(absl::IsFailedPrecondition(killed.Tick()), w.lease.is_replaced());
       }},
      {"leave", [](World& w) { return Done(w.lease.Leave()); }, false},
  });
}

}  // namespace
}  // namespace packhouse
