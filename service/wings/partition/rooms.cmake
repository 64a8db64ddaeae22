packhouse_room(partitioning
  FOLDER wings/partition/cutting
  SOURCES assignment.cc balance.cc best_parts.cc cluster_joiner.cc coarsening.cc
          algorithms/pieces/graph_cutting.cc algorithms/pieces/graph_pieces.cc homogeneous_graph.cc
          kway_refiner.cc mask_classes.cc metis_assignment.cc new_ids.cc node_classes.cc
          part_cutter.cc algorithms/pieces/piece_schema.cc refinement.cc simple_parts.cc
          symmetric_graph.cc
  DEPENDS packhouse_source_graphs)

packhouse_room(partitioning_engines
  FOLDER wings/partition/engines
  SOURCES child_process.cc metis_engine.cc
  DEPENDS packhouse_partitioning)

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
          partition_run.cc restore.cc
  DEPENDS packhouse_partition_files packhouse_partitioning packhouse_admission)
