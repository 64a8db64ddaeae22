// packhouse._native: reads a batch where it was received, as packhouse/data/reading.py does, and
// the messages of a lane, as packhouse/calls/lane.py does.
//
// A response is walked once. Tensors become numpy arrays over its bytes, or over one piece of
// memory of their own that is aligned for devices; or, of a response that lies in a slot of shared
// memory, over the slot. Whatever is not as the server writes it is left
// to protobuf: then `read_batch` returns None. So this file decides nothing about what is valid.
//
// A server may write to a slot while it is read here. So what has been read twice need not be
// equal, and nothing that was checked the first time may be taken for checked the second time.
//
// Only Python's stable ABI is used, and numpy only as objects that are called: one build serves all
// versions of both. Arrays hold the bytes object that they view, and nothing is written to it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#ifdef __linux__
#include <sys/socket.h>
#endif

#include "crc32c.h"

// As in packhouse/base/aligned.py.
enum { kAlignment = 64 };
// Beyond these numpy or protobuf would have to say what is wrong.
enum { kMaxDimensions = 32, kMaxVarintBytes = 9, kMaxLengthBytes = 4 };
// Beyond the largest `packhouse.v1.DataType`.
enum { kMaxTypes = 32 };
// Of a LoadedBatch.
enum { kNumFields = 17 };

// Tags: field number and wire type.
enum {
  kResponseBatch = 0x12,  // PackResponse.batch, and LoadResponse.batch.
  kLoadedBatch = 0x0A,
  kIsPadding = 0x10,
  kIsRedelivered = 0x18,
  kGraphsOfStep = 0x20,
  kShapeNumber = 0x28,
  kDrawnSmaller = 0x32,
  kSmallerId = 0x08,
  kSmallerLevel = 0x10,
  kId = 0x08,
  kEpoch = 0x10,
  kStep = 0x18,
  kGraphIds = 0x22,
  kSizes = 0x2A,
  kRealRows = 0x32,
  kRows = 0x3A,
  kTensors = 0x42,
  kName = 0x0A,
  kType = 0x10,
  kShape = 0x1A,
  kData = 0x22,
  kDeclared = 0x28,
  kGap = 0x32,
};

// Numbers of packhouse.v1.DataType.
enum { kInt16Type = 3, kInt32Type = 4, kUint8Type = 6, kFirstInteger = 2, kLastInteger = 9 };

// Bytes of a response that are left to read.
typedef struct {
  const unsigned char* at;
  const unsigned char* end;
} Span;

typedef struct {
  Span name;
  Span shape;
  Span data;
  Span gap;
  uint64_t type;
  // Its own type, if it travels in a narrow one; otherwise 0.
  uint64_t declared;
} Tensor;

typedef struct {
  uint64_t id, epoch, step;
  Span graph_ids, sizes, real_rows, rows;
  // The tensors' fields, one after the other.
  Span tensors;
  uint64_t is_padding, is_redelivered, graphs_of_step, shape_number;
  // From the first `drawn_smaller` to the end of the last one.
  Span smaller;
  Py_ssize_t num_smaller;
} Batch;

// What numpy is called for; set by `prepare`.
typedef struct {
  PyObject* ndarray;
  PyObject* dtype;
  PyObject* no_shape;
  PyObject* received;   // The type ReceivedBatch.
  PyObject* tuple_new;  // tuple.__new__, which makes one without running Python code.
  PyObject* graph_ids_type;
  PyObject* sizes_type;
  PyObject* all_components;
  PyObject* field_names[kNumFields];
  PyObject* types[kMaxTypes];
  Py_ssize_t item_bytes[kMaxTypes];
} State;

static State state;

// Where a ReceivedBatch has what a LoadedBatch has; and what that has beside.
enum {
  kRealRowsPart = 5,
  kRowsPart = 6,
  kSmallerPart = 12,
  kDeclaredPart = 13,
  kNumParts = 14,
  kSchemaPart = -1,
  kGenerationPart = -2,
  kSessionPart = -3,
  kEpochRowsPart = -4,
};

// In the order of a LoadedBatch.
static const struct {
  const char* name;
  int part;
} fields_of_batch[kNumFields] = {
    {"schema", kSchemaPart},
    {"id", 0},
    {"epoch", 1},
    {"step", 2},
    {"graph_ids", 3},
    {"sizes", 4},
    {"real_rows", kRealRowsPart},
    {"rows", kRowsPart},
    {"tensors", 7},
    {"generation", kGenerationPart},
    {"session", kSessionPart},
    {"is_padding", 8},
    {"is_redelivered", 9},
    {"graphs_of_step", 10},
    {"shape", 11},
    {"drawn_smaller", kSmallerPart},
    {"epoch_rows", kEpochRowsPart},
};

// Batches of one shape lay their tensors out alike. What such tensors are is remembered from the
// second batch on: one array over all of them, whose fields they are, takes half of the time of an
// array for each.
enum { kMaxLayouts = 8, kMaxSeen = 64, kMaxKeyBytes = 4096, kMaxPieces = 256 };

// Some bytes of tensors.
typedef struct {
  size_t at;  // From the first tensor's tag on.
  size_t size;
} Piece;

// The bytes between the tensors' data, but for gaps. Who has the same ones at the same places, has
// arrays of the same kinds there.
typedef struct {
  size_t total;  // Of all tensors.
  int num_pieces;
  Piece pieces[kMaxPieces];
  size_t size;
  unsigned char bytes[kMaxKeyBytes];  // Of all pieces, one after the other.
} Key;

typedef struct {
  Key* key;            // NULL: free.
  PyObject* record;    // The type.
  PyObject* names;     // A list.
  PyObject* declared;  // None, or a dict.
} Layout;

static Layout layouts[kMaxLayouts];
static int next_layout;
// Hashes of keys that came once: those of ragged batches are not worth a layout.
static uint64_t seen[kMaxSeen];
static int next_seen;

// The functions below return 0 for what is to be left to protobuf, and 1 otherwise.

static int ReadVarint(Span* span, uint64_t* value) {
  uint64_t sum = 0;
  for (int i = 0; i < kMaxVarintBytes && span->at < span->end; ++i) {
    const unsigned char byte = *span->at++;
    sum |= (uint64_t)(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      *value = sum;
      return 1;
    }
  }
  return 0;
}

// A length-delimited field's content.
static int ReadBytes(Span* span, Span* content) {
  uint64_t length;
  const unsigned char* start = span->at;
  if (!ReadVarint(span, &length) || span->at - start > kMaxLengthBytes ||
      length > (uint64_t)(span->end - span->at)) {
    return 0;
  }
  content->at = span->at;
  content->end = span->at += length;
  return 1;
}

static int ReadTensor(Span span, Tensor* tensor) {
  memset(tensor, 0, sizeof *tensor);
  tensor->data.at = tensor->data.end = span.end;
  while (span.at < span.end) {
    switch (*span.at++) {
      case kName:
        // Of two, protobuf would look at both.
        if (tensor->name.at != NULL || !ReadBytes(&span, &tensor->name)) return 0;
        break;
      case kType:
        if (!ReadVarint(&span, &tensor->type)) return 0;
        break;
      case kDeclared:
        if (!ReadVarint(&span, &tensor->declared)) return 0;
        break;
      case kShape:
        // A second one would be appended to the first.
        if (tensor->shape.at != NULL || !ReadBytes(&span, &tensor->shape)) return 0;
        break;
      case kGap:
        if (tensor->gap.at != NULL || !ReadBytes(&span, &tensor->gap)) return 0;
        break;
      case kData:
        return ReadBytes(&span, &tensor->data) && span.at == span.end;
      default:
        return 0;
    }
  }
  return 1;
}

static int ReadHead(Span span, Batch* batch) {
  while (span.at < span.end) {
    const unsigned char tag = *span.at;
    if (tag == kTensors) break;
    ++span.at;
    int is_read = 0;
    switch (tag) {
      case kId:
        is_read = ReadVarint(&span, &batch->id);
        break;
      case kEpoch:
        is_read = ReadVarint(&span, &batch->epoch);
        break;
      case kStep:
        is_read = ReadVarint(&span, &batch->step);
        break;
      case kGraphIds:
        is_read = ReadBytes(&span, &batch->graph_ids);
        break;
      case kSizes:
        is_read = ReadBytes(&span, &batch->sizes);
        break;
      case kRealRows:
        is_read = batch->real_rows.at == NULL && ReadBytes(&span, &batch->real_rows);
        break;
      case kRows:
        is_read = batch->rows.at == NULL && ReadBytes(&span, &batch->rows);
        break;
      default:
        break;
    }
    if (!is_read) return 0;
  }
  batch->tensors = span;
  return 1;
}

// A sub-graph that was drawn smaller, from its tag on.
static int ReadSmaller(Span* span, uint64_t* id, uint64_t* level) {
  Span content;
  *id = *level = 0;
  ++span->at;
  if (!ReadBytes(span, &content)) return 0;
  while (content.at < content.end) {
    const unsigned char tag = *content.at++;
    if (tag != kSmallerId && tag != kSmallerLevel) return 0;
    if (!ReadVarint(&content, tag == kSmallerId ? id : level)) return 0;
  }
  return *level <= UINT32_MAX;
}

static int ReadLoaded(Span span, Batch* batch) {
  while (span.at < span.end) {
    uint64_t* field;
    if (*span.at == kDrawnSmaller) {
      uint64_t id, level;
      if (batch->smaller.at == NULL) batch->smaller.at = batch->smaller.end = span.at;
      // One after another.
      if (batch->smaller.end != span.at || !ReadSmaller(&span, &id, &level)) return 0;
      batch->smaller.end = span.at;
      ++batch->num_smaller;
      continue;
    }
    switch (*span.at++) {
      case kIsPadding:
        field = &batch->is_padding;
        break;
      case kIsRedelivered:
        field = &batch->is_redelivered;
        break;
      case kGraphsOfStep:
        field = &batch->graphs_of_step;
        break;
      case kShapeNumber:
        field = &batch->shape_number;
        break;
      default:
        return 0;
    }
    if (!ReadVarint(&span, field)) return 0;
  }
  return batch->shape_number <= UINT32_MAX;
}

static int ReadResponse(Span span, int is_loaded, Batch* batch) {
  Span inner;
  memset(batch, 0, sizeof *batch);
  batch->graph_ids.at = batch->graph_ids.end = span.end;
  batch->sizes.at = batch->sizes.end = span.end;
  if (span.at == span.end || *span.at++ != kResponseBatch) return 0;
  if (!ReadBytes(&span, &inner) || span.at != span.end) return 0;
  if (is_loaded) {
    span = inner;
    if (span.at == span.end || *span.at++ != kLoadedBatch) return 0;
    if (!ReadBytes(&span, &inner) || !ReadLoaded(span, batch)) return 0;
  }
  return ReadHead(inner, batch);
}

// The functions below return NULL with an exception set, or with none for protobuf. They run no
// Python code, so that no signal handler's exception comes in their midst.

// A new tuple of the numbers of a packed field.
static PyObject* Numbers(Span span) {
  Py_ssize_t count = 0;
  for (const unsigned char* at = span.at; at < span.end; ++at) count += *at < 0x80;
  PyObject* numbers = PyTuple_New(count);
  if (numbers == NULL) return NULL;
  for (Py_ssize_t i = 0; i < count; ++i) {
    uint64_t value;
    PyObject* number = NULL;
    if (ReadVarint(&span, &value)) number = PyLong_FromUnsignedLongLong(value);
    if (number == NULL || PyTuple_SetItem(numbers, i, number) < 0) {
      Py_DECREF(numbers);
      return NULL;
    }
  }
  if (span.at != span.end) {
    Py_DECREF(numbers);
    return NULL;
  }
  return numbers;
}

// A new tuple of (id, level).
static PyObject* SmallerGraphs(const Batch* batch) {
  PyObject* graphs = PyTuple_New(batch->num_smaller);
  if (graphs == NULL) return NULL;
  Span span = batch->smaller;
  for (Py_ssize_t i = 0; i < batch->num_smaller; ++i) {
    uint64_t id, level;
    PyObject* graph = NULL;
    if (span.at < span.end && ReadSmaller(&span, &id, &level)) {
      graph = Py_BuildValue("(KK)", (unsigned long long)id, (unsigned long long)level);
    }
    if (graph == NULL || PyTuple_SetItem(graphs, i, graph) < 0) {
      Py_DECREF(graphs);
      return NULL;
    }
  }
  return graphs;
}

// Where arrays are: in the response or slot, or copied to memory of their own.
typedef struct {
  PyObject* buffer;
  const unsigned char* start;  // Of `buffer`'s bytes.
  unsigned char* next;         // The next free byte of a copy; NULL for views.
  const unsigned char* end;    // Of the bytes for copies.
} Place;

// numpy.ndarray(shape, type, buffer, offset) of those bytes. Takes `shape`.
static PyObject* Array(Place* place, PyObject* shape, PyObject* type, Span data) {
  if (shape == NULL) return NULL;
  const unsigned char* at = data.at;
  if (place->next != NULL) {
    const size_t size = (size_t)(data.end - data.at);
    const size_t aligned = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (aligned > (size_t)(place->end - place->next)) {
      Py_DECREF(shape);
      return NULL;
    }
    memcpy(place->next, data.at, size);
    at = place->next;
    place->next += aligned;
  }
  PyObject* array = PyObject_CallFunction(state.ndarray, "OOOn", shape, type, place->buffer,
                                          (Py_ssize_t)(at - place->start));
  Py_DECREF(shape);
  if (array == NULL && PyErr_ExceptionMatches(PyExc_ValueError)) PyErr_Clear();
  return array;
}

// Rows of `width` numbers each, in one dimension if it is -1.
static PyObject* Column(Place* place, PyObject* type, Py_ssize_t item_bytes, Span data,
                        Py_ssize_t rows, Py_ssize_t width) {
  // numpy would say so, and in other words.
  if (data.end - data.at != rows * item_bytes * (width < 0 ? 1 : width)) return NULL;
  PyObject* shape = width < 0 ? Py_BuildValue("(n)", rows) : Py_BuildValue("(nn)", rows, width);
  return Array(place, shape, type, data);
}

static PyObject* TensorArray(Place* place, const Tensor* tensor) {
  if (tensor->type >= kMaxTypes || state.types[tensor->type] == NULL) return NULL;
  Span span = tensor->shape;
  uint64_t extents[kMaxDimensions];
  int count = 0;
  uint64_t bytes = (uint64_t)state.item_bytes[tensor->type];
  while (span.at < span.end) {
    if (count == kMaxDimensions || !ReadVarint(&span, &extents[count])) return NULL;
    const uint64_t extent = extents[count++];
    if (extent > (uint64_t)PY_SSIZE_T_MAX) return NULL;
    if (extent != 0 && bytes > (uint64_t)PY_SSIZE_T_MAX / extent) return NULL;
    bytes *= extent;
  }
  if (bytes != (uint64_t)(tensor->data.end - tensor->data.at)) return NULL;
  PyObject* shape = PyTuple_New(count);
  for (int i = 0; shape != NULL && i < count; ++i) {
    PyObject* extent = PyLong_FromUnsignedLongLong(extents[i]);
    if (extent == NULL || PyTuple_SetItem(shape, i, extent) < 0) Py_CLEAR(shape);
  }
  return Array(place, shape, state.types[tensor->type], tensor->data);
}

// Whether the tensor may travel in that type; see packhouse/data/batch.py.
static int IsNarrow(const Tensor* tensor) {
  return (tensor->type == kUint8Type || tensor->type == kInt16Type || tensor->type == kInt32Type) &&
         tensor->declared >= kFirstInteger && tensor->declared <= kLastInteger &&
         state.item_bytes[tensor->declared] > state.item_bytes[tensor->type];
}

// A new dict of the tensors by name. `declared`, None or a dict, becomes a dict with the own types
// of narrow tensors, if there are any.
static PyObject* TensorArrays(Place* place, Span span, PyObject** declared) {
  PyObject* arrays = PyDict_New();
  if (arrays == NULL) return NULL;
  Py_ssize_t count = 0;
  while (span.at < span.end) {
    Span content;
    Tensor tensor;
    PyObject* name = NULL;
    PyObject* array = NULL;
    if (*span.at++ == kTensors && ReadBytes(&span, &content) && ReadTensor(content, &tensor)) {
      // A tensor may have no name.
      name = PyUnicode_DecodeUTF8(tensor.name.at == NULL ? "" : (const char*)tensor.name.at,
                                  tensor.name.end - tensor.name.at, NULL);
      if (name != NULL) {
        array = TensorArray(place, &tensor);
      } else if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
      }
    }
    int is_set = array != NULL && PyDict_SetItem(arrays, name, array) == 0;
    if (is_set && tensor.declared != 0) {
      is_set = IsNarrow(&tensor);
      if (is_set && *declared == Py_None) {
        PyObject* types = PyDict_New();
        if (types != NULL) {
          Py_DECREF(*declared);
          *declared = types;
        }
        is_set = types != NULL;
      }
      is_set = is_set && PyDict_SetItem(*declared, name, state.types[tensor.declared]) == 0;
    }
    Py_XDECREF(name);
    Py_XDECREF(array);
    if (!is_set) {
      Py_DECREF(arrays);
      return NULL;
    }
    ++count;
  }
  // Of two tensors with one name protobuf's reader says what it thinks.
  if (PyDict_Size(arrays) != count) {
    Py_DECREF(arrays);
    return NULL;
  }
  return arrays;
}

static int AddPiece(Key* key, Span tensors, const unsigned char* begin, const unsigned char* end) {
  const size_t size = (size_t)(end - begin);
  if (key->num_pieces == kMaxPieces || size > kMaxKeyBytes - key->size) return 0;
  key->pieces[key->num_pieces++] = (Piece){(size_t)(begin - tensors.at), size};
  memcpy(key->bytes + key->size, begin, size);
  key->size += size;
  return 1;
}

// 0: they are too much to be remembered.
static int MakeKey(Span tensors, Key* key) {
  Span span = tensors;
  Span content;
  Tensor tensor;
  key->total = (size_t)(tensors.end - tensors.at);
  key->num_pieces = 0;
  key->size = 0;
  while (span.at < span.end) {
    const unsigned char* begin = span.at;
    if (*span.at++ != kTensors || !ReadBytes(&span, &content) || !ReadTensor(content, &tensor)) {
      return 0;
    }
    if (tensor.gap.at != NULL) {
      if (!AddPiece(key, tensors, begin, tensor.gap.at)) return 0;
      begin = tensor.gap.end;
    }
    if (!AddPiece(key, tensors, begin, tensor.data.at)) return 0;
  }
  return 1;
}

static int HasKey(Span tensors, const Key* key) {
  if (key == NULL || key->total != (size_t)(tensors.end - tensors.at)) return 0;
  const unsigned char* bytes = key->bytes;
  for (int i = 0; i < key->num_pieces; ++i) {
    const Piece piece = key->pieces[i];
    if (memcmp(tensors.at + piece.at, bytes, piece.size) != 0) return 0;
    bytes += piece.size;
  }
  return 1;
}

// As TensorArrays, of a layout that is known; NULL without an exception if it is not.
static PyObject* KnownArrays(Place* place, Span tensors, PyObject** declared) {
  const Layout* layout = layouts;
  while (layout < layouts + kMaxLayouts && !HasKey(tensors, layout->key)) ++layout;
  if (layout == layouts + kMaxLayouts) return NULL;
  // Another thread may put something else in the layout's place.
  PyObject* names = layout->names;
  PyObject* types = layout->declared;
  Py_INCREF(names);
  Py_INCREF(types);
  PyObject* record = PyObject_CallFunction(state.ndarray, "OOOn", state.no_shape, layout->record,
                                           place->buffer, (Py_ssize_t)(tensors.at - place->start));
  PyObject* arrays = record == NULL ? NULL : PyDict_New();
  const Py_ssize_t count = PyList_Size(names);
  for (Py_ssize_t i = 0; arrays != NULL && i < count; ++i) {
    PyObject* name = PyList_GetItem(names, i);
    PyObject* array = PyObject_GetItem(record, name);
    if (array == NULL || PyDict_SetItem(arrays, name, array) < 0) Py_CLEAR(arrays);
    Py_XDECREF(array);
  }
  Py_XDECREF(record);
  Py_DECREF(names);
  if (arrays == NULL) {
    Py_DECREF(types);
    return NULL;
  }
  Py_DECREF(*declared);
  *declared = types;
  return arrays;
}

// A type whose fields are those arrays, where the tensors' data are. One view of all, and then its
// fields, is a third of the time of a view for each.
static PyObject* RecordOf(Span tensors, PyObject* names, PyObject* arrays) {
  PyObject* formats = PyList_New(0);
  PyObject* offsets = PyList_New(0);
  const Py_ssize_t count = PyList_Size(names);
  Span span = tensors;
  int is_right = formats != NULL && offsets != NULL;
  for (Py_ssize_t i = 0; is_right && i < count; ++i) {
    Span content;
    Tensor tensor;
    if (span.at == span.end || *span.at++ != kTensors || !ReadBytes(&span, &content) ||
        !ReadTensor(content, &tensor)) {
      is_right = 0;
      break;
    }
    PyObject* array = PyDict_GetItem(arrays, PyList_GetItem(names, i));
    PyObject* type = PyObject_GetAttrString(array, "dtype");
    PyObject* shape = PyObject_GetAttrString(array, "shape");
    PyObject* format = type == NULL || shape == NULL ? NULL : PyTuple_Pack(2, type, shape);
    PyObject* offset = PyLong_FromSsize_t((Py_ssize_t)(tensor.data.at - tensors.at));
    is_right = format != NULL && offset != NULL && PyList_Append(formats, format) == 0 &&
               PyList_Append(offsets, offset) == 0;
    Py_XDECREF(offset);
    Py_XDECREF(format);
    Py_XDECREF(shape);
    Py_XDECREF(type);
  }
  PyObject* record = NULL;
  if (is_right) {
    record = PyObject_CallFunction(state.dtype, "({sOsOsOsn})", "names", names, "formats", formats,
                                   "offsets", offsets, "itemsize",
                                   (Py_ssize_t)(tensors.end - tensors.at));
  }
  Py_XDECREF(offsets);
  Py_XDECREF(formats);
  return record;
}

// Remembers the layout if its key comes a second time. Returns -1 with an exception set if there is
// no memory.
static int Learn(Span tensors, const Key* key, PyObject* arrays, PyObject* declared) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (size_t i = 0; i < key->size; ++i) hash = (hash ^ key->bytes[i]) * 0x100000001b3u;
  int is_new = 1;
  for (int i = 0; i < kMaxSeen; ++i) is_new = is_new && seen[i] != hash;
  if (is_new) {
    seen[next_seen] = hash;
    next_seen = (next_seen + 1) % kMaxSeen;
    return 0;
  }
  PyObject* names = PyDict_Keys(arrays);
  PyObject* record = names == NULL ? NULL : RecordOf(tensors, names, arrays);
  Key* copy = record == NULL ? NULL : PyMem_Malloc(sizeof *copy);
  if (record != NULL && copy == NULL) PyErr_NoMemory();
  if (copy == NULL) {
    Py_XDECREF(names);
    Py_XDECREF(record);
    if (!PyErr_Occurred()) return 0;
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
    // Of names that fields cannot have: such batches are all read as the first ones.
    PyErr_Clear();
    return 0;
  }
  *copy = *key;
  Layout* layout = &layouts[next_layout];
  next_layout = (next_layout + 1) % kMaxLayouts;
  const Layout before = *layout;
  Py_INCREF(declared);
  *layout = (Layout){copy, record, names, declared};
  PyMem_Free(before.key);
  Py_XDECREF(before.record);
  Py_XDECREF(before.names);
  Py_XDECREF(before.declared);
  return 0;
}

// As TensorArrays, by a layout that is known if there is one.
static PyObject* Arrays(Place* place, Span tensors, PyObject** declared) {
  // Copies have other places.
  if (place->next != NULL || tensors.at == tensors.end) {
    return TensorArrays(place, tensors, declared);
  }
  PyObject* arrays = KnownArrays(place, tensors, declared);
  if (arrays != NULL || PyErr_Occurred()) return arrays;
  arrays = TensorArrays(place, tensors, declared);
  Key key;
  if (arrays != NULL && MakeKey(tensors, &key) && Learn(tensors, &key, arrays, *declared) < 0) {
    Py_CLEAR(arrays);
  }
  return arrays;
}

// Memory for copies of the ids and the sizes and, of these fields, the tensors. Returns 0 for what
// is not valid.
static int Allocate(const Batch* batch, Span tensors, Place* place) {
  size_t total = kAlignment;
  size_t count = 2;
  Span span = tensors;
  Span content;
  Tensor tensor;
  total += (size_t)(batch->graph_ids.end - batch->graph_ids.at);
  total += (size_t)(batch->sizes.end - batch->sizes.at);
  while (span.at < span.end) {
    if (*span.at++ != kTensors || !ReadBytes(&span, &content) || !ReadTensor(content, &tensor)) {
      return 0;
    }
    total += (size_t)(tensor.data.end - tensor.data.at);
    ++count;
  }
  total += count * kAlignment;
  // Uninitialized.
  place->buffer = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)total);
  if (place->buffer == NULL) return 0;
  place->start = (const unsigned char*)PyByteArray_AsString(place->buffer);
  const uintptr_t first = (uintptr_t)place->start;
  place->next = (unsigned char*)place->start + (kAlignment - first % kAlignment) % kAlignment;
  place->end = place->start + total;
  return 1;
}

// How a response is read.
typedef struct {
  int is_loaded;
  int widen;
} Wanted;

// A ReceivedBatch in the order of its fields. `small` is the place of ids and sizes.
static PyObject* Received(const Batch* batch, Wanted wanted, Place* small, Place* place) {
  PyObject* real_rows = Numbers(batch->real_rows);
  PyObject* rows = real_rows == NULL ? NULL : Numbers(batch->rows);
  PyObject* ids = NULL;
  PyObject* sizes = NULL;
  // The last component is that of graphs, whose rows are no sizes.
  if (rows != NULL && PyTuple_Size(real_rows) > 0) {
    const Py_ssize_t count = (batch->graph_ids.end - batch->graph_ids.at) / 8;
    ids = Column(small, state.graph_ids_type, 8, batch->graph_ids, count, -1);
    if (ids != NULL) {
      sizes = Column(small, state.sizes_type, 4, batch->sizes, count, PyTuple_Size(real_rows) - 1);
    }
  }
  Py_INCREF(Py_None);
  PyObject* declared = Py_None;
  PyObject* tensors = sizes == NULL ? NULL : Arrays(place, batch->tensors, &declared);
  PyObject* smaller = tensors == NULL ? NULL : SmallerGraphs(batch);
  PyObject* fields = NULL;
  PyObject* received = NULL;
  if (smaller != NULL) {
    fields = Py_BuildValue(
        "(KKKOOOOOOOKKOO)", (unsigned long long)batch->id, (unsigned long long)batch->epoch,
        (unsigned long long)batch->step, ids, sizes, real_rows, rows, tensors,
        batch->is_padding ? Py_True : Py_False, batch->is_redelivered ? Py_True : Py_False,
        (unsigned long long)batch->graphs_of_step, (unsigned long long)batch->shape_number, smaller,
        wanted.widen ? declared : Py_None);
  }
  if (fields != NULL) {
    received = PyObject_CallFunctionObjArgs(state.tuple_new, state.received, fields, NULL);
  }
  Py_XDECREF(fields);
  Py_XDECREF(smaller);
  Py_DECREF(declared);
  Py_XDECREF(tensors);
  Py_XDECREF(rows);
  Py_XDECREF(real_rows);
  Py_XDECREF(sizes);
  Py_XDECREF(ids);
  return received;
}

static int IsPrepared(void) {
  if (state.ndarray == NULL) PyErr_SetString(PyExc_RuntimeError, "prepare() comes first");
  return state.ndarray != NULL;
}

static PyObject* ReadBatch(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* response;
  Wanted wanted;
  int is_copied;
  if (!PyArg_ParseTuple(arguments, "pppS:read_batch", &wanted.is_loaded, &wanted.widen, &is_copied,
                        &response) ||
      !IsPrepared()) {
    return NULL;
  }
  const unsigned char* start = (const unsigned char*)PyBytes_AsString(response);
  const Span whole = {start, start + PyBytes_Size(response)};
  Batch batch;
  Place place = {response, start, NULL, NULL};
  PyObject* received = NULL;
  if (ReadResponse(whole, wanted.is_loaded, &batch)) {
    if (!is_copied) {
      received = Received(&batch, wanted, &place, &place);
    } else if (Allocate(&batch, batch.tensors, &place)) {
      received = Received(&batch, wanted, &place, &place);
      Py_DECREF(place.buffer);
    }
  }
  if (received == NULL && !PyErr_Occurred()) Py_RETURN_NONE;
  return received;
}

// Of the response in `whole`, which lies in the buffer that begins at `start`.
static PyObject* BatchInSlot(Wanted wanted, PyObject* buffer, const unsigned char* start,
                             Span whole, int is_copied) {
  Batch batch;
  Place place = {buffer, start, NULL, NULL};
  Place copies;
  // Views of ids and sizes would keep the slot after the tensors have gone, and lie at any address.
  const Span none = {NULL, NULL};
  if (!ReadResponse(whole, wanted.is_loaded, &batch) ||
      !Allocate(&batch, is_copied ? batch.tensors : none, &copies)) {
    return NULL;
  }
  PyObject* received = Received(&batch, wanted, &copies, is_copied ? &copies : &place);
  Py_DECREF(copies.buffer);
  return received;
}

// read_slot(is_loaded, widen, buffer, its address, offset, size, is_copied): of `size` bytes from
// `offset` on, which are in the buffer. Python 3.9's stable ABI cannot ask a buffer for its
// address.
static PyObject* ReadSlot(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* buffer;
  unsigned long long address;
  Py_ssize_t offset, size;
  Wanted wanted;
  int is_copied;
  if (!PyArg_ParseTuple(arguments, "ppOKnnp:read_slot", &wanted.is_loaded, &wanted.widen, &buffer,
                        &address, &offset, &size, &is_copied) ||
      !IsPrepared()) {
    return NULL;
  }
  const unsigned char* start = (const unsigned char*)(uintptr_t)address;
  const Span whole = {start + offset, start + offset + size};
  PyObject* received = BatchInSlot(wanted, buffer, start, whole, is_copied);
  if (received == NULL && !PyErr_Occurred()) Py_RETURN_NONE;
  return received;
}

// Lanes are Linux's alone.
#ifdef __linux__

// The slots of a lane; see SlotMemory and Lane in packhouse/calls.
typedef struct {
  PyObject* buffers;     // A list: of each slot what arrays view.
  PyObject* addresses;   // A list of numbers.
  PyObject* held;        // A bytearray: 1 for those that are the client's.
  PyObject* is_forking;  // A bytearray of one.
  Py_ssize_t slot_bytes;
  Py_ssize_t most_returned;
  Py_ssize_t most_held;
} Slots;

enum { kMessageBytes = 16, kMostReleased = 64 };

// Whether nothing but the list of buffers has that one. Python 3.14 has flags in the upper half.
static int IsAlone(PyObject* buffer) { return (uint32_t)Py_REFCNT(buffer) == 1; }

// Releases the slots that nobody views any more, once there are `most_returned` of them.
static void ReturnSlots(int socket, const Slots* slots) {
  unsigned char message[4 * kMostReleased];
  Py_ssize_t numbers[kMostReleased];
  Py_ssize_t count = 0;
  char* held = PyByteArray_AsString(slots->held);
  const Py_ssize_t num_slots = PyList_Size(slots->buffers);
  for (Py_ssize_t i = 0; i < num_slots && count < kMostReleased; ++i) {
    if (!held[i] || !IsAlone(PyList_GetItem(slots->buffers, i))) continue;
    for (int k = 0; k < 4; ++k) message[4 * count + k] = (unsigned char)(i >> (8 * k));
    numbers[count++] = i;
  }
  if (count < slots->most_returned) return;
  // The server has room for messages about all slots. Where it has gone, receiving says so.
  (void)!send(socket, message, (size_t)(4 * count), MSG_DONTWAIT | MSG_NOSIGNAL);
  for (Py_ssize_t i = 0; i < count; ++i) held[numbers[i]] = 0;
}

static uint64_t Number(const unsigned char* bytes, int size) {
  uint64_t number = 0;
  for (int k = 0; k < size; ++k) number |= (uint64_t)bytes[k] << (8 * k);
  return number;
}

// The batch that a message tells of. NULL without an exception, and nothing is changed: Python is
// to look at the message.
static PyObject* BatchOfMessage(Wanted wanted, const unsigned char* message, const Slots* slots) {
  const uint64_t number = Number(message, 4);
  const uint64_t offset = Number(message + 4, 4);
  const uint64_t size = Number(message + 8, 8);
  const uint64_t slot_bytes = (uint64_t)slots->slot_bytes;
  const Py_ssize_t num_slots = PyList_Size(slots->buffers);
  char* held = PyByteArray_AsString(slots->held);
  if (PyByteArray_AsString(slots->is_forking)[0] || number >= (uint64_t)num_slots || held[number] ||
      size > slot_bytes || offset > slot_bytes - size) {
    return NULL;
  }
  Py_ssize_t num_held = 0;
  for (Py_ssize_t i = 0; i < num_slots; ++i) num_held += held[i];
  if (num_held >= slots->most_held) return NULL;
  PyObject* buffer = PyList_GetItem(slots->buffers, (Py_ssize_t)number);
  const size_t address = PyLong_AsSize_t(PyList_GetItem(slots->addresses, (Py_ssize_t)number));
  if (PyErr_Occurred()) return NULL;
  const unsigned char* start = (const unsigned char*)address;
  const Span whole = {start + offset, start + offset + size};
  // A fork on another thread may put another buffer in its place.
  Py_INCREF(buffer);
  held[number] = 1;
  PyObject* received = BatchInSlot(wanted, buffer, start, whole, 0);
  if (received == NULL && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_MemoryError))) {
    // The message is not lost where memory is.
    PyErr_Clear();
    held[number] = 0;
  }
  Py_DECREF(buffer);
  return received;
}

// receive(is_loaded, widen, socket, slots): the next batch of a lane; waits for it. Bytes: a
// message at which Python is to look; none at the end. An exception that interrupts it has taken
// nothing.
static PyObject* Receive(PyObject* module, PyObject* arguments) {
  (void)module;
  Wanted wanted;
  int socket;
  PyObject* tuple;
  if (!PyArg_ParseTuple(arguments, "ppiO!:receive", &wanted.is_loaded, &wanted.widen, &socket,
                        &PyTuple_Type, &tuple) ||
      !IsPrepared()) {
    return NULL;
  }
  // Asking for more by format would take as long as three arrays.
  const Slots slots = {PyTuple_GetItem(tuple, 0),
                       PyTuple_GetItem(tuple, 1),
                       PyTuple_GetItem(tuple, 2),
                       PyTuple_GetItem(tuple, 3),
                       PyLong_AsSsize_t(PyTuple_GetItem(tuple, 4)),
                       PyLong_AsSsize_t(PyTuple_GetItem(tuple, 5)),
                       PyLong_AsSsize_t(PyTuple_GetItem(tuple, 6))};
  if (PyErr_Occurred()) return NULL;
  if (!PyByteArray_AsString(slots.is_forking)[0]) ReturnSlots(socket, &slots);
  unsigned char message[kMessageBytes];
  ssize_t size;
  int error;
  do {
    Py_BEGIN_ALLOW_THREADS size = recv(socket, message, sizeof message, 0);
    error = errno;
    Py_END_ALLOW_THREADS if (size < 0 && error == EINTR) {
      if (PyErr_CheckSignals() < 0) return NULL;
      // A handler may have closed the lane: then the number is no longer its socket's.
      if (PyList_Size(slots.buffers) == 0) break;
    }
    // A reset is said once, before messages that are there still.
  } while (size < 0 && (error == EINTR || error == ECONNRESET));
  if (size != kMessageBytes) return PyBytes_FromStringAndSize(NULL, 0);
  PyObject* received = BatchOfMessage(wanted, message, &slots);
  if (received != NULL || PyErr_Occurred()) return received;
  return PyBytes_FromStringAndSize((const char*)message, kMessageBytes);
}

#endif  // __linux__

// Sets a field of a dict. Takes `value`.
static int SetField(PyObject* fields, int name, PyObject* value) {
  if (value == NULL) return 0;
  const int is_set = PyDict_SetItem(fields, state.field_names[name], value) == 0;
  Py_DECREF(value);
  return is_set;
}

// A new dict of the rows of each component. NULL without an exception if there are more or fewer.
static PyObject* RowsByComponent(PyObject* components, PyObject* rows) {
  const Py_ssize_t count = PyTuple_Size(components);
  if (count < 0 || !PyTuple_Check(rows) || PyTuple_Size(rows) != count) return NULL;
  PyObject* by_name = PyDict_New();
  for (Py_ssize_t i = 0; by_name != NULL && i < count; ++i) {
    if (PyDict_SetItem(by_name, PyTuple_GetItem(components, i), PyTuple_GetItem(rows, i)) < 0) {
      Py_CLEAR(by_name);
    }
  }
  return by_name;
}

// loaded_batch(LoadedBatch, ReceivedBatch, schema, generation, session, epoch_rows): what
// LoadedBatch.of_loaded_parts makes. None of what read_batch has not read, of narrow tensors and of
// what contradicts itself: Python makes that, or says why not.
static PyObject* LoadedBatch(PyObject* module, PyObject* arguments) {
  (void)module;
  PyTypeObject* kind;
  PyObject *received, *schema, *generation, *session, *epoch_rows;
  if (!PyArg_ParseTuple(arguments, "O!O!OOOO:loaded_batch", &PyType_Type, &kind, &PyTuple_Type,
                        &received, &schema, &generation, &session, &epoch_rows) ||
      !IsPrepared()) {
    return NULL;
  }
  PyObject* parts[kNumParts];
  if (PyTuple_Size(received) != kNumParts) Py_RETURN_NONE;
  for (int i = 0; i < kNumParts; ++i) parts[i] = PyTuple_GetItem(received, i);
  if (parts[kDeclaredPart] != Py_None || !PyTuple_Check(parts[kRealRowsPart])) Py_RETURN_NONE;
  PyObject* components = PyObject_GetAttr(schema, state.all_components);
  PyObject* fields = components == NULL ? NULL : PyDict_New();
  int is_made = fields != NULL;
  for (int i = 0; is_made && i < kNumFields; ++i) {
    const int part = fields_of_batch[i].part;
    PyObject* value;
    if (part == kRealRowsPart || part == kRowsPart) {
      value = RowsByComponent(components, parts[part]);
    } else if (part == kSmallerPart) {
      value = PyDict_New();
      if (value != NULL && PyDict_MergeFromSeq2(value, parts[part], 1) < 0) Py_CLEAR(value);
    } else {
      value = part >= 0                 ? parts[part]
              : part == kSchemaPart     ? schema
              : part == kGenerationPart ? generation
              : part == kSessionPart    ? session
                                        : epoch_rows;
      Py_INCREF(value);
    }
    is_made = SetField(fields, i, value);
  }
  Py_XDECREF(components);
  // As Batch._make.
  PyObject* batch = is_made ? PyType_GenericAlloc(kind, 0) : NULL;
  if (batch != NULL && PyObject_GenericSetDict(batch, fields, NULL) < 0) Py_CLEAR(batch);
  Py_XDECREF(fields);
  if (batch == NULL && !PyErr_Occurred()) Py_RETURN_NONE;
  return batch;
}

// repeated_numbers(counts as int64): a new bytearray of int64.
static PyObject* RepeatedNumbers(PyObject* module, PyObject* argument) {
  (void)module;
  if (!PyBytes_Check(argument)) {
    PyErr_SetString(PyExc_TypeError, "counts are no bytes");
    return NULL;
  }
  const char* counts = PyBytes_AsString(argument);
  const Py_ssize_t size = PyBytes_Size(argument) / (Py_ssize_t)sizeof(int64_t);
  int64_t total = 0;
  for (Py_ssize_t i = 0; i < size; ++i) {
    int64_t count;
    memcpy(&count, counts + i * sizeof count, sizeof count);
    if (count < 0 || count > PY_SSIZE_T_MAX / 16 - total) {
      PyErr_Format(PyExc_ValueError, "count %zd is %lld", i, (long long)count);
      return NULL;
    }
    total += count;
  }
  PyObject* result = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(total * sizeof total));
  if (result == NULL) return NULL;
  // Aligned, as all that malloc gives.
  int64_t* next = (int64_t*)PyByteArray_AsString(result);
  for (int64_t i = 0; i < size; ++i) {
    int64_t count;
    memcpy(&count, counts + i * sizeof count, sizeof count);
    while (count-- > 0) *next++ = i;
  }
  return result;
}

// crc32c(bytes): its CRC-32C.
static PyObject* Crc32cOfBytes(PyObject* module, PyObject* argument) {
  (void)module;
  if (!PyBytes_Check(argument)) {
    PyErr_SetString(PyExc_TypeError, "data are no bytes");
    return NULL;
  }
  const unsigned char* bytes = (const unsigned char*)PyBytes_AsString(argument);
  return PyLong_FromUnsignedLong(Crc32c(bytes, (size_t)PyBytes_Size(argument)));
}

// prepare(ReceivedBatch, numpy.ndarray, types by number, type of ids, type of sizes, numpy.dtype)
static PyObject* Prepare(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject *received, *ndarray, *types, *graph_ids_type, *sizes_type, *dtype;
  if (!PyArg_ParseTuple(arguments, "OOOOOO:prepare", &received, &ndarray, &types, &graph_ids_type,
                        &sizes_type, &dtype)) {
    return NULL;
  }
  State next;
  memset(&next, 0, sizeof next);
  PyObject* number;
  PyObject* type;
  Py_ssize_t position = 0;
  if (!PyDict_Check(types)) {
    PyErr_SetString(PyExc_TypeError, "types is no dict");
    return NULL;
  }
  while (PyDict_Next(types, &position, &number, &type)) {
    const size_t index = PyLong_AsSize_t(number);
    if (index == (size_t)-1 && PyErr_Occurred()) return NULL;
    if (index >= kMaxTypes) {
      PyErr_Format(PyExc_ValueError, "type %zu is beyond %d", index, kMaxTypes - 1);
      return NULL;
    }
    PyObject* item_bytes = PyObject_GetAttrString(type, "itemsize");
    if (item_bytes == NULL) return NULL;
    next.item_bytes[index] = PyLong_AsSsize_t(item_bytes);
    Py_DECREF(item_bytes);
    if (PyErr_Occurred()) return NULL;
    next.types[index] = type;
  }
  next.tuple_new = PyObject_GetAttrString((PyObject*)&PyTuple_Type, "__new__");
  if (next.tuple_new == NULL) return NULL;
  next.no_shape = PyTuple_New(0);
  next.all_components = PyUnicode_InternFromString("all_components");
  if (next.no_shape == NULL || next.all_components == NULL) return NULL;
  for (int i = 0; i < kNumFields; ++i) {
    next.field_names[i] = PyUnicode_InternFromString(fields_of_batch[i].name);
    if (next.field_names[i] == NULL) return NULL;
  }
  next.dtype = dtype;
  next.received = received;
  next.ndarray = ndarray;
  next.graph_ids_type = graph_ids_type;
  next.sizes_type = sizes_type;
  Py_INCREF(received);
  Py_INCREF(ndarray);
  Py_INCREF(graph_ids_type);
  Py_INCREF(sizes_type);
  Py_INCREF(dtype);
  for (int i = 0; i < kMaxTypes; ++i) Py_XINCREF(next.types[i]);
  // What was prepared before stays alive: it is a handful of objects, and happens in tests alone.
  state = next;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"prepare", Prepare, METH_VARARGS, "Says what read_batch makes its results of."},
    {"repeated_numbers", RepeatedNumbers, METH_O, "Each position as often as its count says."},
    {"crc32c", Crc32cOfBytes, METH_O, "The checksum of TFRecord files, without their mask."},
    {"read_batch", ReadBatch, METH_VARARGS, "The batch of a response, or None for protobuf."},
    {"read_slot", ReadSlot, METH_VARARGS, "The same of a response that lies in a slot."},
    {"loaded_batch", LoadedBatch, METH_VARARGS, "A LoadedBatch, or None for Python."},
#ifdef __linux__
    {"receive", Receive, METH_VARARGS, "The next batch of a lane, or a message for Python."},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "packhouse._native", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
  PrepareCrc32c();
  return PyModule_Create(&definition);
}
