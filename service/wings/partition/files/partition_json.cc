#include "service/wings/partition/files/partition_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/json_fields.h"

namespace packhouse {
namespace {

absl::Status CheckTiles(absl::string_view what, const std::vector<TypeRanges>& map,
                        uint64_t num_parts, uint64_t total) {
  uint64_t at = 0;
  for (const TypeRanges& type : map) {
    if (type.parts.size() != num_parts) {
      return absl::InvalidArgumentError(absl::StrCat(what, " of ", Quoted(type.name), " has ",
                                                     type.parts.size(), " ranges, must have ",
                                                     num_parts));
    }
  }
  for (uint64_t part = 0; part < num_parts; ++part) {
    for (const TypeRanges& type : map) {
      const PartRange& range = type.parts[part];
      if (range.begin != at || range.end < at) {
        return absl::InvalidArgumentError(absl::StrCat(what, " of ", Quoted(type.name), ", part ",
                                                       part, ": [", range.begin, ", ", range.end,
                                                       ") must begin at ", at));
      }
      at = range.end;
    }
  }
  if (at == total) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " ends at ", at, ", must end at ", total));
}

OrderedJson JsonOf(const std::vector<TypeRanges>& map) {
  OrderedJson object = OrderedJson::object();
  for (const TypeRanges& type : map) {
    OrderedJson ranges = OrderedJson::array();
    for (const PartRange& range : type.parts) ranges.push_back({range.begin, range.end});
    object[type.name] = std::move(ranges);
  }
  return object;
}

OrderedJson TypeIdsOf(const std::vector<TypeRanges>& map) {
  OrderedJson object = OrderedJson::object();
  for (size_t type = 0; type < map.size(); ++type) object[map[type].name] = type;
  return object;
}

// In the order of the type ids; types without an entry in `ids` stand in the order of the map.
absl::StatusOr<std::vector<TypeRanges>> RangesOf(const ReadJson& json, const std::string& key,
                                                 const std::string& ids_key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const object, ObjectField(json, key));
  std::vector<TypeRanges> map;
  for (const auto& [name, value] : object->items()) {
    if (!value.is_array()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, " of ", Quoted(name), " must be a list of ranges"));
    }
    TypeRanges type = {name, {}};
    for (const ReadJson& range : value) {
      PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ends, NumbersOf(range, key));
      if (ends.size() != 2) {
        return absl::InvalidArgumentError(
            absl::StrCat(key, " of ", Quoted(name), " must be a list of pairs of numbers"));
      }
      type.parts.push_back({ends[0], ends[1]});
    }
    map.push_back(std::move(type));
  }
  if (!json.contains(ids_key)) return map;
  std::vector<TypeRanges> ordered(map.size());
  for (TypeRanges& type : map) {
    PH_ASSIGN_OR_RETURN(const ReadJson* const ids, ObjectField(json, ids_key));
    PH_ASSIGN_OR_RETURN(const uint64_t id, NumberField(*ids, type.name));
    if (id >= ordered.size() || !ordered[id].name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(ids_key, " of ", Quoted(type.name), " is ", id,
                                                     ", must be its own and below ",
                                                     ordered.size()));
    }
    if (type.name.empty()) return absl::InvalidArgumentError(absl::StrCat(key, " has a type ''"));
    ordered[id] = std::move(type);
  }
  return ordered;
}

absl::StatusOr<std::string> PathField(const ReadJson& object, const std::string& key) {
  PH_ASSIGN_OR_RETURN(std::string path, StringField(object, key));
  bool inside = !path.empty() && path.front() != '/' && !absl::StrContains(path, '\0');
  for (const absl::string_view piece : absl::StrSplit(path, '/')) inside = inside && piece != "..";
  if (inside) return path;
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(key), " is ", Quoted(path), ", must be a path within the folder"));
}

absl::Status CheckEdgeTypes(const PartitionJson& json) {
  const auto is_node_type = [&json](absl::string_view name) {
    for (const TypeRanges& type : json.node_map) {
      if (type.name == name) return true;
    }
    return false;
  };
  for (const TypeRanges& type : json.edge_map) {
    const std::vector<absl::string_view> words = absl::StrSplit(type.name, ':');
    if (words.size() != 3 || !is_node_type(words[0]) || !is_node_type(words[2])) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge type ", Quoted(type.name),
                       " must be SOURCE:RELATION:TARGET with types of node_map"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

PartFileNames DglPartFileNames(uint64_t part) {
  const std::string folder = absl::StrCat("part", part, "/");
  return {folder + "node_feat.dgl", folder + "edge_feat.dgl", folder + "graph.dgl"};
}

absl::Status CheckPartitionJson(const PartitionJson& json) {
  PH_RETURN_IF_ERROR(CheckTiles("node_map", json.node_map, json.parts.size(), json.num_nodes));
  return CheckTiles("edge_map", json.edge_map, json.parts.size(), json.num_edges);
}

absl::StatusOr<std::string> WritePartitionJson(const PartitionJson& json) {
  PH_RETURN_IF_ERROR(CheckPartitionJson(json));
  OrderedJson object = {{"graph_name", json.graph_name},  {"num_nodes", json.num_nodes},
                        {"num_edges", json.num_edges},    {"part_method", json.part_method},
                        {"num_parts", json.parts.size()}, {"halo_hops", json.halo_hops}};
  object["node_map"] = JsonOf(json.node_map);
  object["edge_map"] = JsonOf(json.edge_map);
  object["ntypes"] = TypeIdsOf(json.node_map);
  object["etypes"] = TypeIdsOf(json.edge_map);
  for (size_t part = 0; part < json.parts.size(); ++part) {
    const PartFileNames& files = json.parts[part];
    AppendMember(absl::StrCat("part-", part),
                 {{"node_feats", files.node_features},
                  {"edge_feats", files.edge_features},
                  {"part_graph", files.graph}},
                 object);
  }
  return JsonIndented(object);
}

absl::StatusOr<PartitionJson> ReadPartitionJson(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const ReadJson object, ParseJsonObject(text));
  PartitionJson json;
  PH_ASSIGN_OR_RETURN(json.graph_name, StringField(object, "graph_name"));
  PH_ASSIGN_OR_RETURN(json.num_nodes, NumberField(object, "num_nodes"));
  PH_ASSIGN_OR_RETURN(json.num_edges, NumberField(object, "num_edges"));
  PH_ASSIGN_OR_RETURN(const uint64_t num_parts, NumberField(object, "num_parts"));
  if (num_parts == 0 || num_parts > kMaxPartsOfDirectory) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_parts is ", num_parts, ", must be 1 to ", kMaxPartsOfDirectory));
  }
  if (object.contains("part_method")) {
    PH_ASSIGN_OR_RETURN(json.part_method, StringField(object, "part_method"));
  }
  if (object.contains("halo_hops")) {
    PH_ASSIGN_OR_RETURN(json.halo_hops, NumberField(object, "halo_hops"));
  }
  PH_ASSIGN_OR_RETURN(json.node_map, RangesOf(object, "node_map", "ntypes"));
  PH_ASSIGN_OR_RETURN(json.edge_map, RangesOf(object, "edge_map", "etypes"));
  PH_RETURN_IF_ERROR(CheckEdgeTypes(json));
  for (uint64_t part = 0; part < num_parts; ++part) {
    PH_ASSIGN_OR_RETURN(const ReadJson* const files,
                        ObjectField(object, absl::StrCat("part-", part)));
    PartFileNames names;
    PH_ASSIGN_OR_RETURN(names.node_features, PathField(*files, "node_feats"));
    PH_ASSIGN_OR_RETURN(names.edge_features, PathField(*files, "edge_feats"));
    PH_ASSIGN_OR_RETURN(names.graph, PathField(*files, "part_graph"));
    json.parts.push_back(std::move(names));
  }
  PH_RETURN_IF_ERROR(CheckPartitionJson(json));
  return json;
}

}  // namespace packhouse
