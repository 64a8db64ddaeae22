// How often and for how long the engines of shared data sets are asked, what their errors mean to
// who asked, and what is refused before they are.
#include "service/wings/cluster/datasets/object_engines.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/caller.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/stores/datasets/stored_values.h"
#include "service/wings/cluster/datasets/chunk_builder.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/datasets/timed_leases.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ObjectEnginesTest : public ::testing::Test {
 protected:
  ObjectEnginesTest() { cluster_.keys.SetForgetful(false); }

  // Whose objects are not tried again.
  ObjectEngines engines() {
    ObjectEngines engines = replica_.engines();
    engines.objects = &objects_;
    engines.sleep = [this](absl::Duration pause) { pauses_.push_back(pause); };
    return engines;
  }
  // The next calls for keys fail so; counts all.
  void FailKeys(int num_calls, StoreFault fault) {
    num_calls_ = 0;
    replica_.connection().SetFaults(
        [this, num_calls, fault] { return ++num_calls_ <= num_calls ? fault : StoreFault::kNone; });
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_THAT(replica_.connection().Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }
  GraphChunk Chunk(uint64_t seed, size_t num_graphs) const {
    Random random(seed);
    return RandomChunk(random, &schema_, num_graphs, 9, seed << 20);
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  ObjectCluster cluster_;
  FakeObjectStore objects_{&cluster_.clock};
  ObjectReplica replica_{&cluster_, &objects_, folder_.path() + "/cache"};
  std::vector<absl::Duration> pauses_;
  int num_calls_ = 0;
};

TEST_F(ObjectEnginesTest, PausesGrowToASecondAndAreNotAlike) {
  const ObjectEngines engines = this->engines();
  for (int failures = 0; failures < 40; ++failures) {
    SCOPED_TRACE(failures);
    pauses_.clear();
    for (int i = 0; i < 200; ++i) engines.BackOff(failures);
    const absl::Duration most = absl::Milliseconds(1 << std::min(failures, 10));
    const auto [least, longest] = std::minmax_element(pauses_.begin(), pauses_.end());
    EXPECT_GE(*least, most / 2);
    EXPECT_LT(*least, 0.6 * most);
    EXPECT_GT(*longest, 0.9 * most);
    EXPECT_LE(*longest, most);
  }
}

// Who asked did nothing wrong, and may ask again.
TEST(ObjectErrorsTest, WhatAnEngineFailsIsUnavailable) {
  using Code = absl::StatusCode;
  EXPECT_THAT(AsUnavailable(absl::OkStatus()), IsOk());
  for (int code = 1; code <= static_cast<int>(Code::kUnauthenticated); ++code) {
    const absl::Status error(static_cast<Code>(code), "why");
    const absl::Status told = AsUnavailable(error);
    switch (error.code()) {
      case Code::kUnknown:
        EXPECT_THAT(told,
                    StatusIs(Code::kUnavailable, "whether the change happened is not known: why"));
        break;
      case Code::kDeadlineExceeded:
      case Code::kPermissionDenied:
      case Code::kUnauthenticated:
        EXPECT_THAT(told, StatusIs(Code::kUnavailable, "the data sets' store: why"));
        break;
      default:
        EXPECT_EQ(told, error);
    }
  }
}

// Reads of ranges, small and whole, and changes: again and again while the store is away, but not
// for ever, and not for who is gone.
TEST_F(ObjectEnginesTest, KeysThatAreAwayAreAskedAgain) {
  ObjectEngines engines = this->engines();
  engines.max_attempts = 5;
  for (int i = 0; i < 1200; ++i) Put(absl::StrCat("k/", 1000 + i), absl::StrCat(i));
  const KeyRange all = KeyRange::Prefix("k/");
  int num_done = 0;
  const auto read_whole = [&]() -> absl::Status {
    const auto values = ReadWholeRange(engines, all, 0);
    if (!values.ok()) return values.status();
    EXPECT_EQ(values->size(), 1200U);
    for (size_t i = 0; i < values->size(); ++i) EXPECT_EQ((*values)[i].value, absl::StrCat(i));
    return absl::OkStatus();
  };
  const auto read_ranges = [&]() -> absl::Status {
    const auto read = ReadRanges(engines, {KeyRange::Of("k/1007"), all, KeyRange::Of("none")});
    if (!read.ok()) return read.status();
    EXPECT_EQ(read->size(), 3U);
    EXPECT_EQ(read->at(0).values.at(0).value, "7");
    EXPECT_EQ(read->at(1).values.size(), 128U);
    EXPECT_TRUE(read->at(1).has_more);
    EXPECT_TRUE(read->at(2).values.empty());
    return absl::OkStatus();
  };
  const auto change = [&] {
    return engines.Change("a thing", [&](bool /*may_be_done*/) {
      return std::optional<Transaction>({{}, {Operation::Put("c", absl::StrCat(num_done++))}, {}});
    });
  };
  const std::vector<std::pair<int, std::function<absl::Status()>>> calls = {
      {3, read_whole}, {1, read_ranges}, {1, change}};
  for (const auto& [num_requests, call] : calls) {
    FailKeys(5, StoreFault::kUnreachable);
    pauses_.clear();
    EXPECT_THAT(call(), IsOk());
    EXPECT_EQ(num_calls_, 5 + num_requests);
    EXPECT_EQ(pauses_.size(), 5U);
    for (size_t i = 1; i < pauses_.size(); ++i) EXPECT_LE(pauses_[i - 1], pauses_[i]);
    FailKeys(6, StoreFault::kUnreachable);
    EXPECT_THAT(call(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fake")));
    FailKeys(1, StoreFault::kUnreachable);
    LeavingCaller caller;
    caller.Leave();
    const CallerScope scope(&caller);
    EXPECT_THAT(call(), StatusIs(absl::StatusCode::kCancelled, _));
  }
  FailKeys(0, StoreFault::kNone);
  // A state that is gone is not asked for again.
  const Revision before = cluster_.keys.revision();
  Put("k/2", "");
  cluster_.keys.Compact(cluster_.keys.revision());
  FailKeys(0, StoreFault::kNone);
  EXPECT_THAT(ReadWholeRange(engines, all, before), StatusIs(absl::StatusCode::kOutOfRange, _));
  EXPECT_EQ(num_calls_, 1);
}

TEST_F(ObjectEnginesTest, WhatIsNotAsWrittenIsReadSomeTimes) {
  const ObjectEngines engines = this->engines();
  const std::string bytes = "0123456789";
  const auto read = [&] { return ReadWholeObject(engines, "o", bytes.size(), Crc32c(bytes)); };
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'o'")));
  ASSERT_THAT(objects_.Put("o", bytes, absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(read(), IsOkAndHolds(bytes));
  EXPECT_THAT(CheckedPart(engines, "o", 2, 3, Crc32c("234"), "x"),
              IsOkAndHolds(std::string("234")));
  EXPECT_THAT(CheckedPart(engines, "o", 2, 3, Crc32c("234"), absl::PermissionDeniedError("no")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no")));
  for (const size_t at : {bytes.size(), size_t{3}}) {  // Cut off; another byte.
    ASSERT_THAT(objects_.Put("o", bytes, absl::InfiniteFuture()), IsOk());
    objects_.Damage("o", at);
    const uint64_t before = objects_.num_gets();
    pauses_.clear();
    EXPECT_THAT(read(),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("'o'"), HasSubstr("the 10 that were written, in 5"))));
    EXPECT_EQ(objects_.num_gets() - before, 5U);
    ASSERT_EQ(pauses_.size(), 4U);
    EXPECT_LE(pauses_[0], absl::Milliseconds(1));
    LeavingCaller caller;
    caller.Leave();
    const CallerScope scope(&caller);
    EXPECT_THAT(read(), StatusIs(absl::StatusCode::kCancelled, _));
  }
}

// One for many keys: long enough for each of them, and not for much longer.
TEST_F(ObjectEnginesTest, LeasesAreSharedAsLongAsTheyLast) {
  FakeConnection& keys = replica_.connection();
  TimedLeases leases(&keys, &cluster_.clock);
  const auto lease = [&](absl::Duration length) {
    const auto granted = leases.ThatLasts(length);
    EXPECT_THAT(granted, IsOk());
    return granted.value_or(0);
  };
  for (const auto& [length, hours] :
       std::vector<std::pair<absl::Duration, int>>{{absl::Minutes(1), 1},
                                                   {absl::Hours(1), 1},
                                                   {absl::Minutes(61), 2},
                                                   {absl::Hours(5), 8}}) {
    SCOPED_TRACE(absl::FormatDuration(length));
    const LeaseId first = lease(length);
    EXPECT_EQ(lease(length), first);
    cluster_.clock.Advance(absl::Hours(hours) - absl::Seconds(1));
    EXPECT_EQ(lease(length), first);
    cluster_.clock.Advance(absl::Seconds(1));
    const LeaseId second = lease(length);
    EXPECT_NE(second, first);
    // The first one lasts for those that came last.
    const std::string key = absl::StrCat("k", hours);
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(key, "", first)}, {}}), IsOk());
    cluster_.clock.Advance(absl::Hours(hours) - absl::Seconds(1));
    EXPECT_TRUE(keys.Get(key)->has_value());
    cluster_.clock.Advance(absl::Seconds(1));
    EXPECT_FALSE(keys.Get(key)->has_value());
    cluster_.clock.Advance(absl::Hours(100));
  }
  const LeaseId one = lease(absl::Hours(1));
  const LeaseId other = lease(absl::Hours(2));
  EXPECT_NE(one, other);
  leases.HasEnded(one);
  EXPECT_NE(lease(absl::Hours(1)), one);
  EXPECT_EQ(lease(absl::Hours(2)), other);
  FailKeys(1, StoreFault::kUnreachable);
  EXPECT_THAT(leases.ThatLasts(absl::Hours(9)), StatusIs(absl::StatusCode::kUnavailable, _));
}

// A server that starts while the object store is away: nothing is asked of it before it is known to
// be the right one.
TEST_F(ObjectEnginesTest, ObjectsThatAreAwayAreWaitedFor) {
  ASSERT_THAT(BindStores(replica_.engines()), IsOk());
  const std::string number =
      *ReadObject(objects_, kStoreIdentityObject, {}, 64, absl::InfiniteFuture());
  const absl::Time never = absl::InfiniteFuture();
  const std::vector<std::function<absl::Status(ObjectStore&)>> calls = {
      [&](ObjectStore& store) { return store.Put("o", "x", never); },
      [&](ObjectStore& store) {
        return store.Get(
            "o", {}, [](absl::string_view) { return absl::OkStatus(); }, never);
      },
      [&](ObjectStore& store) { return store.List("", "", 0, never).status(); },
      [&](ObjectStore& store) { return store.Delete("o", never); },
  };
  for (const auto& call : calls) {
    ASSERT_THAT(objects_.Put("o", "x", never), IsOk());
    objects_.SetFaults({.refused = 1}, 0);
    BoundObjectStore bound(&objects_);
    ObjectEngines engines = this->engines();
    engines.objects = &bound;
    EXPECT_THAT(bound.status(), IsOk());
    EXPECT_THAT(BindStoresNowOrLater(engines, bound), IsOk());
    const auto is_away = StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fake"));
    EXPECT_THAT(bound.status(), is_away);
    EXPECT_THAT(bound.Confirm(never), is_away);
    EXPECT_THAT(call(bound), AllOf(is_away, StatusIs(absl::StatusCode::kUnavailable,
                                                     HasSubstr("since this server was started"))));
    objects_.SetFaults({}, 0);
    for (const std::string other : {"another", ""}) {
      if (other.empty()) {
        ASSERT_THAT(objects_.Delete(kStoreIdentityObject, never), IsOk());
      } else {
        ASSERT_THAT(objects_.Put(kStoreIdentityObject, other, never), IsOk());
      }
      const auto is_another =
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   AllOf(HasSubstr(absl::StrCat("has the number ", other.empty() ? "none" : other)),
                         HasSubstr(absl::StrCat("has ", number))));
      EXPECT_THAT(call(bound), is_another);
      EXPECT_THAT(bound.status(), is_another);
    }
    ASSERT_THAT(objects_.Put(kStoreIdentityObject, number, never), IsOk());
    EXPECT_THAT(call(bound), IsOk());
    EXPECT_THAT(bound.status(), IsOk());
    // From then on it is known.
    ASSERT_THAT(objects_.Delete(kStoreIdentityObject, never), IsOk());
    ASSERT_THAT(objects_.Put("o", "x", never), IsOk());
    EXPECT_THAT(call(bound), IsOk());
    ASSERT_THAT(objects_.Put(kStoreIdentityObject, number, never), IsOk());
  }
  // Stores that were not bound before are not left to each other.
  BoundObjectStore bound(&objects_);
  ObjectEngines engines = this->engines();
  engines.objects = &bound;
  EXPECT_THAT(BindStoresNowOrLater(engines, bound), IsOk());
  objects_.SetFaults({.refused = 1}, 0);
  Put(std::string(kStoreIdentityKey), absl::StrCat(number, " not bound"));
  EXPECT_THAT(BindStoresNowOrLater(engines, bound), StatusIs(absl::StatusCode::kUnavailable, _));
  ASSERT_THAT(
      replica_.connection().Commit({{}, {Operation::Delete(KeyRange::Of(kStoreIdentityKey))}, {}}),
      IsOk());
  EXPECT_THAT(BindStoresNowOrLater(engines, bound), StatusIs(absl::StatusCode::kUnavailable, _));
}

// What is wrong on the way is right again when it is read anew; what stays wrong is believed after
// as many reads as there are transfers.
TEST_F(ObjectEnginesTest, AnotherNumberIsReadAgainBeforeItIsBelieved) {
  ASSERT_THAT(BindStores(replica_.engines()), IsOk());
  const absl::Time never = absl::InfiniteFuture();
  const std::string number = *ReadObject(objects_, kStoreIdentityObject, {}, 64, never);
  for (const int transfers : {1, 2, 5}) {
    for (int wrong = 0; wrong <= transfers; ++wrong) {
      SCOPED_TRACE(testing::Message() << wrong << " of " << transfers);
      int pauses = 0;
      const auto put = [&] {
        return objects_.Put(kStoreIdentityObject, pauses < wrong ? "another" : number, never);
      };
      ASSERT_THAT(put(), IsOk());
      ObjectEngines engines = this->engines();
      engines.max_transfers = transfers;
      engines.sleep = [&](absl::Duration) {
        ++pauses;
        EXPECT_THAT(put(), IsOk());
      };
      const uint64_t before = objects_.num_gets();
      const absl::Status bound = CheckStoresAreBound(engines);
      if (wrong < transfers) {
        EXPECT_THAT(bound, IsOk());
      } else {
        EXPECT_THAT(bound, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(HasSubstr("has the number another"),
                                          HasSubstr(absl::StrCat("has ", number)))));
      }
      const int reads = std::min(wrong + 1, transfers);
      EXPECT_EQ(objects_.num_gets() - before, static_cast<uint64_t>(reads));
      EXPECT_EQ(pauses, reads - 1);
    }
  }
}

TEST_F(ObjectEnginesTest, DataSetsAreBoundedInNumberAndListedAll) {
  ObjectDatasetStore::Options options;
  options.max_bytes = uint64_t{1} << 30;
  options.max_datasets = 260;
  ObjectDatasetStore store(replica_.engines(), &replica_.cache(), options);
  std::vector<std::string> names;
  for (int i = 0; i < 260; ++i) {
    names.push_back(absl::StrCat("set", 1000 + i));
    ASSERT_THAT(store.Create(names.back(), schema_, {}), IsOk());
  }
  const auto is_full =
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("there are 260 data sets, at most"));
  EXPECT_THAT(store.Create("more", schema_, {}), is_full);
  for (const size_t page_size : {0, 1, 7, 130}) {
    std::vector<std::string> listed;
    std::string token;
    do {
      PH_ASSERT_OK_AND_ASSIGN(const DatasetList list, store.List(page_size, token));
      if (page_size != 0) {
        EXPECT_LE(list.datasets.size(), page_size);
      }
      for (const DatasetInfo& info : list.datasets) {
        EXPECT_EQ(info.state, DatasetState::kOpen);
        listed.push_back(info.name);
      }
      token = list.next_page_token;
    } while (!token.empty());
    EXPECT_EQ(listed, names);
  }
  EXPECT_THAT(store.List(1, "no name"), StatusIs(absl::StatusCode::kInvalidArgument, _));
  // What cannot be read is listed, too; what has no state is about to go.
  const uint64_t second = store.Get(names[1])->id;
  Put(DatasetNameKey(names[0]), "?");
  Put(DatasetStateKey(second), "?");
  ASSERT_THAT(
      replica_.connection().Commit(
          {{}, {Operation::Delete(KeyRange::Of(DatasetStateKey(store.Get(names[2])->id)))}, {}}),
      IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList list, store.List(3, ""));
  ASSERT_EQ(list.datasets.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list.datasets[i].name, names[i < 2 ? i : 3]);
    EXPECT_EQ(list.datasets[i].state, i < 2 ? DatasetState::kDamaged : DatasetState::kOpen);
  }
  ASSERT_THAT(store.Delete(names[9]), IsOk());
  ASSERT_THAT(store.Create("more", schema_, {}), IsOk());
  EXPECT_THAT(store.Create("most", schema_, {}), is_full);
}

TEST_F(ObjectEnginesTest, ObjectsMustFitTheCacheTogether) {
  ObjectDatasetStore& store = replica_.store();
  ASSERT_THAT(store.Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(store.Append("set", Chunk(i, 50), {}, std::nullopt), IsOk());
  }
  ASSERT_THAT(store.Seal("set"), IsOk());
  std::vector<uint64_t> sizes;
  for (const ObjectInfo& object : objects_.List("d/", "", 0, absl::InfiniteFuture())->objects) {
    sizes.push_back(object.num_bytes);
  }
  ASSERT_EQ(sizes.size(), 3U);
  const uint64_t all = sizes[0] + sizes[1] + sizes[2];
  for (const uint64_t room : {all, all - 1}) {
    ObjectReplica small(&cluster_, &objects_, absl::StrCat(folder_.path(), "/", room), {}, room);
    PH_ASSERT_OK_AND_ASSIGN(const auto chunks, small.store().OpenChunks("set"));
    const absl::Status fits = chunks->CheckFits({0, 1, 2});
    if (room == all) {
      EXPECT_THAT(fits, IsOk());
    } else {
      EXPECT_THAT(fits, StatusIs(absl::StatusCode::kResourceExhausted,
                                 AllOf(HasSubstr("3 objects of data set 'set'"),
                                       HasSubstr(absl::StrCat(all)),
                                       HasSubstr(absl::StrCat("the ", room, " of")))));
      EXPECT_THAT(chunks->CheckFits({0, 2}), IsOk());
    }
  }
}

TEST_F(ObjectEnginesTest, NamedProducersAreBounded) {
  ObjectDatasetStore& store = replica_.store();
  const auto append = [&](const std::optional<ProducerSequence>& producer) {
    return store.Append("set", Chunk(1, 2), {}, producer).status();
  };
  ASSERT_THAT(store.Create("set", schema_, {}), IsOk());
  ASSERT_THAT(append(ProducerSequence{"p", 1}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(DatasetHead head, ReadHead(engines(), "set"));
  EXPECT_EQ(head.state.num_producers, 1U);
  head.state.num_producers = DatasetStore::kMaxProducers - 1;
  Put(DatasetStateKey(head.id()), EncodeObjectState(head.state));
  EXPECT_THAT(append(ProducerSequence{"q", 1}), IsOk());
  EXPECT_THAT(append(ProducerSequence{"r", 1}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'set'")));
  // Those that are known go on, and so do calls that name none, or one for themselves.
  EXPECT_THAT(append(ProducerSequence{"p", 2}), IsOk());
  EXPECT_THAT(append(ProducerSequence{"m", 1, absl::Hours(1), cluster_.clock.Now()}), IsOk());
  EXPECT_THAT(append(std::nullopt), IsOk());
  EXPECT_EQ(ReadHead(engines(), "set")->state.num_producers, DatasetStore::kMaxProducers);
  EXPECT_EQ(ReadHead(engines(), "set")->state.num_graphs, 10U);
}

// Of all data sets together, to the byte.
TEST_F(ObjectEnginesTest, BytesOfAllDataSetsAreBounded) {
  ASSERT_THAT(replica_.store().Create("one", schema_, {}), IsOk());
  ASSERT_THAT(replica_.store().Append("one", Chunk(1, 3), {}, std::nullopt), IsOk());
  const uint64_t bytes = replica_.store().Get("one")->num_bytes;
  ASSERT_THAT(replica_.store().Delete("one"), IsOk());
  const auto append = [&](const std::string& name, uint64_t max_bytes) {
    ObjectDatasetStore::Options options;
    options.max_bytes = max_bytes;
    ObjectDatasetStore store(engines(), &replica_.cache(), options);
    store.Create(name, schema_, {}).IgnoreError();
    return store.Append(name, Chunk(1, 3), {}, std::nullopt).status();
  };
  const auto is_full = [&](uint64_t max_bytes) {
    return StatusIs(absl::StatusCode::kResourceExhausted,
                    absl::StrCat("store: ", 2 * bytes, " + ", bytes,
                                 " bytes of all data sets, at most ", max_bytes));
  };
  EXPECT_THAT(append("a", bytes), IsOk());
  EXPECT_THAT(append("b", 2 * bytes), IsOk());
  for (const uint64_t bound : {bytes, 2 * bytes, 3 * bytes - 1}) {
    EXPECT_THAT(append("c", bound), is_full(bound));
  }
  EXPECT_THAT(append("c", 3 * bytes), IsOk());
}

// What is put is as docs/storage-format.md says: records at their places, and the sizes behind.
TEST_F(ObjectEnginesTest, ObjectsAreAsTheFormatSays) {
  ObjectDatasetStore& store = replica_.store();
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, store.Create("set", schema_, {}));
  uint64_t first_graph = 0;
  for (const size_t num_graphs : {2, 200}) {
    SCOPED_TRACE(num_graphs);
    const GraphChunk graphs = Chunk(num_graphs, num_graphs);
    const PreparedAppend prepared = PrepareAppend({"set"}, graphs, {}, std::nullopt).value();
    ASSERT_THAT(store.Append("set", graphs, {}, std::nullopt), IsOk());
    const auto key = replica_.connection().Get(DatasetTailKey(info.id, first_graph));
    ASSERT_TRUE(key.ok() && key->has_value());
    const ObjectChunk chunk = DecodeObjectChunk((*key)->value).value();
    const std::string bytes = *ReadObject(objects_, ChunkObject(info.id, chunk.object), {},
                                          uint64_t{1} << 30, absl::InfiniteFuture());
    EXPECT_EQ(bytes.substr(0, 16), std::string("PHOBJECT\1\0\0\0\0\0\0\0", 16));
    EXPECT_EQ(chunk.num_bytes, bytes.size());
    EXPECT_EQ(chunk.crc, Crc32c(bytes));
    EXPECT_EQ(chunk.first_graph, first_graph);
    ASSERT_EQ(chunk.records.size(), 1U);
    EXPECT_EQ(chunk.records[0].offset, 16U);
    EXPECT_EQ(chunk.records[0].num_graphs, num_graphs);
    EXPECT_EQ(chunk.records[0].num_bytes, prepared.record.num_bytes());
    // A whole number of 64 bytes, the last of them zero.
    EXPECT_EQ(chunk.run_offset, 16 + BytesInObject(prepared.record.num_bytes()));
    EXPECT_EQ(chunk.run_offset % 64, 16U);
    EXPECT_LT(chunk.run_offset - 16 - prepared.record.num_bytes(), 64U);
    const std::string run = bytes.substr(chunk.run_offset);
    EXPECT_EQ(run, EncodeRun(prepared.sizes));
    EXPECT_EQ(chunk.run_bytes, run.size());
    EXPECT_EQ(chunk.run_crc, Crc32c(run));
    // A short one is in the manifest, too.
    EXPECT_EQ(chunk.run, num_graphs == 2 ? run : "");
    const uint64_t reckoned = BytesOfObject({&prepared});
    EXPECT_GE(reckoned, bytes.size());
    EXPECT_LE(reckoned, bytes.size() + 64);
    first_graph += num_graphs;
  }
}

// A round through more objects than are listed at once, in steps: each object is looked at once.
TEST_F(ObjectEnginesTest, ARoundOfSweepsGoesOnWhereItEnded) {
  ASSERT_THAT(BindStores(replica_.engines()), IsOk());
  const absl::Time never = absl::InfiniteFuture();
  uint64_t num_bytes = 0;
  for (uint64_t id = 1; id <= 100; ++id) {
    for (uint64_t object = 1; object <= 25; ++object) {
      const std::string bytes(object, 'o');
      num_bytes += bytes.size();
      ASSERT_THAT(objects_.Put(ChunkObject(id, object), bytes, never), IsOk());
    }
  }
  ASSERT_THAT(objects_.Put("d/of-others", "", never), IsOk());
  cluster_.clock.Advance(absl::Hours(1));
  ObjectSweeper::Options options;
  options.max_listed = 1;  // A page at a time.
  options.max_deleted = 10'000;
  ObjectSweeper sweeper(replica_.engines(), options);
  // As old as they must be is too young.
  PH_ASSERT_OK_AND_ASSIGN(ObjectSweeper::Step step, sweeper.Run());
  EXPECT_EQ(step.num_deleted, 0U);
  while (!step.is_round_over) {
    PH_ASSERT_OK_AND_ASSIGN(step, sweeper.Run());
  }
  cluster_.clock.Advance(absl::Milliseconds(1));
  ObjectSweeper::Step all;
  int num_steps = 0;
  do {
    PH_ASSERT_OK_AND_ASSIGN(step, sweeper.Run());
    EXPECT_LE(step.num_listed, ObjectStore::kMaxListed);
    EXPECT_EQ(step.num_orphans, step.num_deleted);
    all.num_listed += step.num_listed;
    all.num_deleted += step.num_deleted;
    all.num_bytes += step.num_bytes;
    ASSERT_LT(++num_steps, 10);
  } while (!step.is_round_over);
  EXPECT_EQ(num_steps, 3);
  EXPECT_EQ(all.num_listed, 2501U);
  EXPECT_EQ(all.num_deleted, 2500U);
  EXPECT_EQ(all.num_bytes, num_bytes);
  EXPECT_EQ(objects_.List("d/", "", 0, never)->objects.size(), 1U);
}

// Of a deleted data set all go, however young and many they are, and then its key, unless a
// snapshot is taken; but for what another one has.
TEST_F(ObjectEnginesTest, WhatWasDeletedIsSweptAtOnce) {
  ASSERT_THAT(BindStores(replica_.engines()), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, replica_.store().Create("set", schema_, {}));
  ASSERT_THAT(replica_.store().Append("set", Chunk(1, 3), {}, std::nullopt), IsOk());
  const uint64_t gone = info.id + 1;
  for (uint64_t object = 0; object <= ObjectStore::kMaxListed; ++object) {
    ASSERT_THAT(objects_.Put(RunObject(gone, object), "run", absl::InfiniteFuture()), IsOk());
  }
  Put(GoneDatasetKey(info.id), "set");
  Put(GoneDatasetKey(gone), "gone");
  Put(absl::StrCat(kGoneDatasets, "of-others"), "");
  const auto num_keys = [&] {
    return replica_.connection().Range(KeyRange::Prefix(kGoneDatasets), 0, 0)->values.size();
  };
  ObjectSweeper::Options options;
  options.max_deleted = ObjectStore::kMaxListed;
  ObjectSweeper sweeper(replica_.engines(), options);
  const auto words = [&] {
    const auto step = sweeper.Run();
    if (!step.ok()) return step.status().ToString();
    return absl::StrCat(step->num_deleted, " of ", step->num_bytes, ", ", step->num_orphans,
                        " orphans, ", num_keys(), " keys");
  };
  Put(std::string(kSnapshotKey), "");
  EXPECT_EQ(words(), "0 of 0, 0 orphans, 3 keys");
  ASSERT_THAT(
      replica_.connection().Commit({{}, {Operation::Delete(KeyRange::Of(kSnapshotKey))}, {}}),
      IsOk());
  EXPECT_EQ(words(), "1000 of 3000, 0 orphans, 3 keys");
  EXPECT_EQ(words(), "1 of 3, 0 orphans, 2 keys");
  EXPECT_EQ(words(), "0 of 0, 0 orphans, 2 keys");
  EXPECT_THAT(replica_.store().Verify("set", [](const VerifyProgress&) { return true; }), IsOk());
  EXPECT_EQ(objects_.num_objects(), 2U);
}

// What is looked at is left behind, and so much is deleted in a step.
TEST_F(ObjectEnginesTest, ASweepDeletesSoMuchInAStep) {
  ASSERT_THAT(BindStores(replica_.engines()), IsOk());
  // Its own objects stay: two, and what a page has of them.
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, replica_.store().Create("set", schema_, {}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(replica_.store().Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  const absl::Time never = absl::InfiniteFuture();
  for (uint64_t id = info.id + 1; id <= info.id + 4; ++id) {
    for (uint64_t object = 1; object <= 25; ++object) {
      ASSERT_THAT(objects_.Put(RunObject(id, object), "run", never), IsOk());
    }
  }
  cluster_.clock.Advance(absl::Hours(2));
  ObjectSweeper::Options options;
  options.max_deleted = 30;
  ObjectSweeper sweeper(replica_.engines(), options);
  std::vector<std::string> steps;
  for (bool is_over = false; !is_over;) {
    PH_ASSERT_OK_AND_ASSIGN(const ObjectSweeper::Step step, sweeper.Run());
    is_over = step.is_round_over;
    steps.push_back(absl::StrCat(step.num_listed, " ", step.num_deleted, " ", step.num_bytes, " ",
                                 step.num_orphans));
    ASSERT_LT(steps.size(), 10U);
  }
  EXPECT_THAT(steps,
              testing::ElementsAre("102 30 90 30", "70 30 90 30", "40 30 90 30", "10 10 30 10"));
  PH_ASSERT_OK_AND_ASSIGN(const ObjectSweeper::Step anew, sweeper.Run());
  EXPECT_EQ(anew.num_listed, 2U);
  // One that has objects of its own, beside one that nobody has.
  ASSERT_THAT(objects_.Put(ChunkObject(info.id, 7), "chunk", never), IsOk());
  cluster_.clock.Advance(absl::Hours(2));
  PH_ASSERT_OK_AND_ASSIGN(const ObjectSweeper::Step one, sweeper.Run());
  EXPECT_EQ(one.num_deleted, 1U);
  EXPECT_EQ(one.num_bytes, 5U);
  EXPECT_EQ(objects_.num_objects(), 3U);
}

// However busy others are: it is tried some times, and what is told of it is true.
TEST_F(ObjectEnginesTest, AnAppendThatIsAlwaysTooLateIsToldSo) {
  ObjectReplica other(&cluster_, &objects_, folder_.path() + "/other");
  ASSERT_THAT(other.store().Create("set", schema_, {}), IsOk());
  ObjectEngines engines = this->engines();
  engines.max_attempts = 3;
  ObjectDatasetStore store(engines, &replica_.cache(), {});
  uint64_t num_others = 0;
  for (const int times : {3, 4}) {
    int left = times;
    const uint64_t before = other.store().Get("set")->num_graphs;
    int num_requests = 0;
    replica_.connection().SetFaults([&] {
      // Each try reads the name and the state, then what it decides on.
      if (++num_requests % 3 == 0 && left-- > 0) {
        EXPECT_THAT(other.store().Append("set", Chunk(++num_others, 1), {}, std::nullopt), IsOk());
      }
      return StoreFault::kNone;
    });
    pauses_.clear();
    const auto appended = store.Append("set", Chunk(99, 5), {}, std::nullopt);
    replica_.connection().SetFaults(nullptr);
    ASSERT_EQ(pauses_.size(), 3U);
    for (int i = 0; i < 3; ++i) EXPECT_LE(pauses_[i], absl::Milliseconds(1 << i));
    const uint64_t added = other.store().Get("set")->num_graphs - before;
    if (times == 3) {
      EXPECT_THAT(appended, IsOk());
      EXPECT_EQ(added, 3U + 5U);
    } else {
      EXPECT_THAT(appended, StatusIs(absl::StatusCode::kUnavailable,
                                     AllOf(HasSubstr("'set'"), HasSubstr("others wrote"))));
      EXPECT_EQ(added, 4U);
    }
  }
}

// "set": 600 graphs in three chunks, of which a page has two. Their runs are in objects.
class ObjectManifestTest : public ObjectEnginesTest {
 protected:
  ObjectManifestTest() {
    ObjectDatasetStore::Options options;
    options.chunks_of_page = 2;
    ObjectDatasetStore store(engines_, &replica_.cache(), options);
    id_ = store.Create("set", schema_, {})->id;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(store.Append("set", Chunk(i, 200), {}, std::nullopt), IsOk());
    }
    page_ = DecodeObjectPage(ValueOf(DatasetPageKey(id_, 0))).value();
    tail_ = DecodeObjectChunk(ValueOf(DatasetTailKey(id_, 400))).value();
  }
  std::string ValueOf(const std::string& key) {
    return replica_.connection().Get(key).value()->value;
  }
  absl::Status Read(bool with_pages = true) {
    DatasetHead head = ReadHead(engines_, "set").value();
    const auto manifest = ReadManifest(engines_, head, with_pages);
    return manifest.status();
  }
  absl::StatusOr<SizeHistogram> Sizes() {
    DatasetHead head = ReadHead(engines_, "set").value();
    PH_ASSIGN_OR_RETURN(const ObjectManifest manifest, ReadManifest(engines_, head, false));
    return ReadRuns(engines_, head, manifest);
  }
  // A key has another value while `check` is called.
  void With(const std::string& key, const std::string& value, const std::function<void()>& check) {
    SCOPED_TRACE(key);
    const std::string before = ValueOf(key);
    Put(key, value);
    check();
    Put(key, before);
  }
  void PutObject(const std::string& key, const std::string& bytes) {
    ASSERT_THAT(objects_.Put(key, bytes, absl::InfiniteFuture()), IsOk());
  }

  const ObjectEngines engines_ = engines();
  uint64_t id_ = 0;
  ObjectPage page_;
  ObjectChunk tail_;
};

TEST_F(ObjectManifestTest, ItFitsTogetherOrIsNamed) {
  const auto lost = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kDataLoss, "data set 'set': " + what);
  };
  const std::string state_key = DatasetStateKey(id_);
  const ObjectDatasetState state = DecodeObjectState(ValueOf(state_key)).value();
  const auto with_state = [&](const std::function<void(ObjectDatasetState&)>& change,
                              const std::string& there) {
    ObjectDatasetState changed = state;
    change(changed);
    With(state_key, EncodeObjectState(changed), [&] {
      for (const bool with_pages : {false, true}) {
        EXPECT_THAT(Read(with_pages),
                    lost("its chunks have the graphs to 600, there are " + there));
      }
    });
  };
  with_state([](auto& s) { ++s.num_graphs; },
             "601; in 1 pages and 1 chunks more, there are 1 and 1");
  with_state([](auto& s) { ++s.num_pages; },
             "600; in 1 pages and 1 chunks more, there are 2 and 1");
  with_state([](auto& s) { --s.num_tail; }, "600; in 1 pages and 1 chunks more, there are 1 and 0");
  DatasetHead head = ReadHead(engines_, "set").value();
  With(state_key, "?", [&] {
    EXPECT_THAT(ReadHead(engines_, "set"), lost("stored state of a data set: malformed"));
    EXPECT_THAT(ReadManifest(engines_, head, true), lost("stored state of a data set: malformed"));
  });
  With(DatasetNameKey("set"), "?", [&] {
    EXPECT_THAT(ReadHead(engines_, "set"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'set'")));
  });
  With(DatasetPageKey(id_, 0), "?",
       [&] { EXPECT_THAT(Read(false), lost("stored page of a data set: malformed")); });
  With(DatasetTailKey(id_, 400), "?",
       [&] { EXPECT_THAT(Read(false), lost("stored chunk of a data set: malformed")); });
  // A page that is no list of chunks, or is not there.
  ObjectPage other = page_;
  other.object = 7;
  other.manifest_bytes = 1;
  other.manifest_crc = Crc32c("x");
  With(DatasetPageKey(id_, 0), EncodeObjectPage(other), [&] {
    EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(ManifestObject(id_, 7))));
    PutObject(ManifestObject(id_, 7), "x");
    EXPECT_THAT(Read(), lost("stored manifest of a data set: malformed"));
    EXPECT_THAT(HasChunk(engines_, head, 0, 1),
                StatusIs(absl::StatusCode::kDataLoss, "stored manifest of a data set: malformed"));
    EXPECT_THAT(Read(false), IsOk());
  });
  EXPECT_THAT(Read(), IsOk());
  ASSERT_THAT(replica_.connection().Commit({{}, {Operation::Delete(KeyRange::Of(state_key))}, {}}),
              IsOk());
  EXPECT_THAT(ReadManifest(engines_, head, true),
              StatusIs(absl::StatusCode::kAborted, "data set 'set': it was deleted meanwhile"));
  EXPECT_THAT(ReadHead(engines_, "set"), lost("its state is missing"));
}

TEST_F(ObjectManifestTest, RunsAreOfTheirGraphs) {
  EXPECT_EQ(Sizes()->num_graphs(), 600U);
  SizeHistogram one(2);
  ASSERT_THAT(one.Add({1, 2}), IsOk());
  const auto lost = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kDataLoss, "data set 'set': " + what);
  };
  // Of a page.
  ObjectPage page = page_;
  page.object = 7;
  for (const auto& [run, what] : std::vector<std::pair<std::string, std::string>>{
           {"x", "stored histogram: malformed"},
           {EncodeRun(one), "its histogram counts 201 graphs, there are 600"}}) {
    page.run_bytes = run.size();
    page.run_crc = Crc32c(run);
    PutObject(RunObject(id_, 7), run);
    With(DatasetPageKey(id_, 0), EncodeObjectPage(page), [&] { EXPECT_THAT(Sizes(), lost(what)); });
  }
  // Of a chunk, in its manifest.
  for (const auto& [run, what] : std::vector<std::pair<std::string, std::string>>{
           {"x", "stored histogram: malformed"},
           {EncodeRun(one), "the histogram of the graphs from 400 on counts 1, there are 200"}}) {
    ObjectChunk chunk = tail_;
    chunk.run = run;
    With(DatasetTailKey(id_, 400), EncodeObjectChunk(chunk), [&] {
      EXPECT_THAT(Sizes(), lost(what));
      const DatasetHead head = ReadHead(engines_, "set").value();
      SizeHistogram sizes(2);
      EXPECT_THAT(ChunkRuns(engines_, head, {&chunk}).AddNext(sizes), lost(what));
    });
  }
  // Whoever reserves ends it, at each step.
  DatasetHead head = ReadHead(engines_, "set").value();
  const ObjectManifest manifest = ReadManifest(engines_, head, false).value();
  bool is_refused = true;
  int step = 0;
  for (; is_refused; ++step) {
    is_refused = false;
    int left = step;
    const auto sizes = ReadRuns(engines_, head, manifest, [&](uint64_t bytes) -> absl::Status {
      EXPECT_GT(bytes, 0U);
      if (left-- != 0) return absl::OkStatus();
      is_refused = true;
      return absl::CancelledError(absl::StrCat("step ", step));
    });
    EXPECT_THAT(sizes.status(),
                is_refused ? absl::CancelledError(absl::StrCat("step ", step)) : absl::OkStatus());
  }
  EXPECT_GT(step, 2);
}

TEST_F(ObjectManifestTest, ChunksAreFoundInPagesToo) {
  DatasetHead head = ReadHead(engines_, "set").value();
  const ObjectManifest manifest = ReadManifest(engines_, head, true).value();
  ASSERT_EQ(manifest.chunks.size(), 3U);
  for (const ObjectChunk& chunk : manifest.chunks) {
    EXPECT_THAT(HasChunk(engines_, head, chunk.first_graph, chunk.object), IsOkAndHolds(true));
    EXPECT_THAT(HasChunk(engines_, head, chunk.first_graph, chunk.object + 1), IsOkAndHolds(false));
  }
  for (const uint64_t no_chunk : {1, 399, 401, 600}) {
    EXPECT_THAT(HasChunk(engines_, head, no_chunk, manifest.chunks[0].object), IsOkAndHolds(false));
  }
  With(DatasetTailKey(id_, 400), "?", [&] {
    EXPECT_THAT(HasChunk(engines_, head, 400, 1), StatusIs(absl::StatusCode::kDataLoss, _));
  });
  With(DatasetPageKey(id_, 0), "?", [&] {
    EXPECT_THAT(HasChunk(engines_, head, 0, 1), StatusIs(absl::StatusCode::kDataLoss, _));
  });
}

// More than one answer has; the store may drop what is read meanwhile, and then all is read anew.
TEST_F(ObjectManifestTest, LongTailsAreReadInPages) {
  ObjectDatasetStore& store = replica_.store();
  ASSERT_THAT(store.Create("long", schema_, {}), IsOk());
  for (int i = 0; i < 150; ++i) {
    ASSERT_THAT(store.Append("long", Chunk(i, 1), {}, std::nullopt), IsOk());
  }
  DatasetHead head = ReadHead(engines_, "long").value();
  EXPECT_EQ(ReadManifest(engines_, head, false)->chunks.size(), 150U);
  const auto drop_before = [&](int request, int times) {
    num_calls_ = 0;
    replica_.connection().SetFaults([this, request, left = times]() mutable {
      if (++num_calls_ % request == 0 && left-- > 0) {
        cluster_.keys.SkipTo(cluster_.keys.revision() + 1);
        cluster_.keys.Compact(cluster_.keys.revision());
      }
      return StoreFault::kNone;
    });
  };
  drop_before(2, 1);
  EXPECT_THAT(ReadManifest(engines_, head, false),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("data set 'long': ")));
  // The name, the state, what both say, and the rest.
  drop_before(4, 1);
  EXPECT_EQ(store.GetHistogram("long")->num_graphs(), 150U);
  ObjectEngines impatient = engines_;
  impatient.max_attempts = 2;
  const ObjectDatasetStore other(impatient, &replica_.cache(), {});
  drop_before(4, 3);
  pauses_.clear();
  EXPECT_THAT(other.GetHistogram("long"), StatusIs(absl::StatusCode::kUnavailable, _));
  ASSERT_EQ(pauses_.size(), 2U);
  EXPECT_LE(pauses_[0], absl::Milliseconds(1));
  drop_before(4, 2);
  EXPECT_THAT(other.GetHistogram("long"), IsOk());
  FailKeys(0, StoreFault::kNone);
  ObjectEngines lost = engines_;
  lost.max_attempts = 0;
  replica_.connection().SetFaults([this, calls = 0]() mutable {
    return ++calls == 2 ? StoreFault::kUnreachable : StoreFault::kNone;
  });
  EXPECT_THAT(ReadManifest(lost, head, false),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("data set 'long': fake")));
}

}  // namespace
}  // namespace packhouse
