packhouse_room(partitioning
  FOLDER wings/partition/cutting
  SOURCES assignment.cc balance.cc best_parts.cc cluster_joiner.cc coarsening.cc
          homogeneous_graph.cc
          mask_classes.cc metis_assignment.cc new_ids.cc node_classes.cc
          part_cutter.cc refinement.cc simple_parts.cc
          symmetric_graph.cc
  DEPENDS packhouse_source_graphs)

packhouse_room(partitioning_engines
  FOLDER wings/partition/engines
  SOURCES metis_engine.cc
  DEPENDS packhouse_partitioning)

# Beside packhoused: one call of METIS is one process.
add_executable(packhouse-metis wings/partition/engines/metis_main.cc)

target_link_libraries(packhouse-metis PRIVATE packhouse_flags ${METIS_LIBRARY})

add_dependencies(packhouse_partitioning_engines packhouse-metis)

install(TARGETS packhouse-metis)

packhouse_room(partition_files
  FOLDER wings/partition/files
  SOURCES array.cc chunked_layout.cc dgl_reader.cc dgl_writer.cc json_fields.cc metis_graph_file.cc
          npy_file.cc number_lines.cc parmetis_converter.cc parmetis_rows.cc partition_json.cc
          safetensors_file.cc text_rows.cc
  DEPENDS packhouse_graph_files nlohmann_json::nlohmann_json)

packhouse_room(partition_jobs
  FOLDER wings/partition/jobs
  SOURCES chunked_folder.cc durable_files.cc graph_exports.cc graph_folders.cc original_ids.cc parmetis_folder.cc parmetis_parts.cc part_tables.cc part_writer.cc
          partition_calls.cc partition_check.cc partition_contents.cc partition_folder.cc
          partition_jobs.cc partition_list.cc partition_needs.cc partition_plan.cc
          partition_queue.cc partition_state.cc partition_states.cc partition_report.cc
          partition_run.cc restore.cc shared_partition_folder.cc
  DEPENDS packhouse_partition_files packhouse_partitioning packhouse_admission)

packhouse_room(partition_parts
  FOLDER wings/partition/epochs
  SOURCES joined_epoch.cc joined_packing.cc part_graphs.cc part_joiner.cc part_links.cc
          parts_schema.cc
  DEPENDS packhouse_partitioning packhouse_sampled_epochs)

# Messages, for the fuzzers too.
packhouse_room(partition_wire
  FOLDER wings/partition/services
  SOURCES joined_kind.cc wire_partitions.cc
  DEPENDS packhouse_graph_wire packhouse_partition_parts packhouse_partition_jobs)


if(PACKHOUSE_WITH_GRPC)
  packhouse_room(partition_services
    FOLDER wings/partition/services
    HEADERS packhouse_grpc_headers
    SOURCES partition_server.cc partitioning_service.cc
    DEPENDS packhouse_rpc packhouse_partition_wire packhouse_partition_parts)

  # What packhoused has of it.
  packhouse_room(partition_wing QUICK
    FOLDER program/wings
    HEADERS packhouse_grpc_headers
    SOURCES partition.cc
    DEPENDS packhouse_partition_services packhouse_partitioning_engines packhouse_program)
endif()
