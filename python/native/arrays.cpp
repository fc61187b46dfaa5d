// SPDX-License-Identifier: Apache-2.0
#include "arrays.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "call_group.hpp"
#include "elements.hpp"
#include "known.hpp"
#include "layout.hpp"

namespace ccoll::python {
namespace {

/// A stream as CUDA's array interface and torch number it: 0 and 1 are the default stream.
cudaStream_t stream_of(std::uintptr_t number) {
  return number == 1 ? nullptr : reinterpret_cast<cudaStream_t>(number);
}

/// torch.Tensor and the numbers of its dtypes, once torch is loaded.
struct Torch {
  nb::object tensor;
  nb::dict types;
};

Torch* torch() {
  static std::atomic<Torch*> known{nullptr};
  if (auto* const one = known.load(std::memory_order_acquire)) return one;
  const nb::dict modules = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
  if (!modules.contains("torch")) return nullptr;
  const nb::object made = helpers().torch_map();
  if (made.is_none()) return nullptr;  // torch is being imported just now
  const auto pair = nb::cast<nb::tuple>(made);
  auto* const one = new Torch{nb::object(pair[0]), nb::cast<nb::dict>(pair[1])};
  // Two threads may make one each; both stay, as callers may have either.
  known.store(one, std::memory_order_release);
  return one;
}

/// The C interface by which DLPack's producers show arrays without calls of Python's: its exchange
/// API, version 1 (dlpack.h). Only what is used has its type.
struct ExchangeApi {
  static constexpr const char* kAttribute = "__dlpack_c_exchange_api__";
  static constexpr const char* kCapsule = "dlpack_exchange_api";
  static constexpr std::uint32_t kMajor = 1;

  std::uint32_t major, minor;
  void* previous;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*from_object)(PyObject* object, nb::dlpack::dltensor* shown);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

/// torch.Tensor and those of its subclasses that were met. Asking a tensor for its attributes costs
/// ten times as much.
auto& exchanging_types() {
  static Known<PyTypeObject, const ExchangeApi*, 8> known;
  return known;
}

void learn_to_exchange(PyTypeObject* type) {
  if (exchanging_types().is_full()) return;
  const nb::object capsule = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)),
                                         ExchangeApi::kAttribute, nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), ExchangeApi::kCapsule)) return;
  const auto* const api =
      static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), ExchangeApi::kCapsule));
  if (api->major != ExchangeApi::kMajor || api->from_object == nullptr) return;
  exchanging_types().add(type, api);
}

/// Whether a bit of torch's says that the values are not those in memory. Only that may be true of
/// tensors which the interface shows.
bool has_lazy_bit(PyObject* tensor, bool is_complex) {
  const auto& names = helpers();
  for (auto* const name : {names.is_neg.ptr(), names.is_conj.ptr()}) {
    if (name == names.is_conj.ptr() && !is_complex) continue;
    const auto answer = nb::steal(PyObject_CallMethodObjArgs(tensor, name, nullptr));
    if (!answer.is_valid()) nb::raise_python_error();
    if (answer.ptr() != Py_False) return true;
  }
  return false;
}

/// The head of numpy's array object, which extensions are compiled with: its layout stays. Reading
/// it costs a tenth of asking for a buffer, which is most of what a small call costs.
struct NumpyArray {
  PyObject head;
  void* data;
  int dimensions;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;

  static constexpr int kCOrder = 0x1, kAligned = 0x100, kWritable = 0x400;
};

/// numpy.ndarray, and what elements its types are, once buffers of it have shown them and that its
/// head has that layout.
struct Numpy {
  std::atomic<PyTypeObject*> array{nullptr};
  /// Programs that make types of their own, time units for example, may make any number.
  Known<PyObject, Element, 16> types;
};

Numpy& numpy() {
  static Numpy known;
  return known;
}

void learn(PyObject* object, const Py_buffer& view, Element element) {
  auto& known = numpy();
  auto* array_type = known.array.load(std::memory_order_acquire);
  if (array_type == nullptr) {
    auto* const modules = PySys_GetObject("modules");
    auto* const module = modules ? PyDict_GetItemString(modules, "numpy") : nullptr;
    if (module == nullptr) return;
    const auto type = nb::getattr(nb::handle(module), "ndarray", nb::none());
    if (!PyType_Check(type.ptr())) return;  // numpy is being imported just now
    array_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
    known.array.store(array_type, std::memory_order_release);
  }
  if (Py_TYPE(object) != array_type || known.types.is_full()) return;
  const auto& array = *reinterpret_cast<const NumpyArray*>(object);
  const nb::object dtype = nb::getattr(nb::handle(object), "dtype");
  const bool fits = array.data == view.buf && array.dimensions == view.ndim &&
                    array.dtype == dtype.ptr() &&
                    ((array.flags & NumpyArray::kWritable) == 0) == (view.readonly != 0);
  if (fits) known.types.add(dtype.ptr(), element);
}

}  // namespace

/// One object that is to become a block, with what its errors say.
struct Held::Request {
  nb::handle object;
  Access access;
  const char* call;
  const char* argument;

  std::string subject() const {
    const auto told = nb::cast<std::string>(helpers().describe(object).attr("__str__")());
    return std::string(call) + ": " + argument + " is " + told;
  }
  [[noreturn]] void wrong_type(const std::string& expected) const {
    throw nb::type_error((subject() + ": expected " + expected).c_str());
  }
  [[noreturn]] void wrong_value(const std::string& expected) const {
    refuse(subject() + ": expected " + expected);
  }
  Element element(std::optional<Element> element) const {
    if (element) return *element;
    wrong_type(
        "elements that are integers of 8 to 64 bits, floats of 8 to 64 bits, complex numbers of 64 "
        "or "
        "128 bits, or bool, in this machine's byte order");
  }
  [[noreturn]] void not_contiguous(bool is_of_gpu) const {
    wrong_value(is_of_gpu ? "elements in C order, or an array that torch or cupy can copy"
                          : "elements in C order, in rows that are equally far apart, or in an "
                            "array that numpy or torch can copy");
  }
  [[noreturn]] void read_only() const {
    wrong_value("memory that may be written, this is read-only");
  }
};

Helpers& helpers() {
  static Helpers& kept = *new Helpers;  // Python's objects must not end after the interpreter
  return kept;
}

void refuse(const std::string& text) { throw Error(ErrorKind::invalid_argument, text); }

bool is_list(nb::handle object) {
  return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr());
}

Held::Held(nb::handle object, Access access, const char* call, const char* argument)
    : object_(object.ptr()) {
  const Request request{object, access, call, argument};
  if (!(take_numpy(request) || take_exchanged(request) || take_buffer(request) ||
        take_torch(request) || take_cuda_interface(request) || take_interface(request) ||
        take_dlpack(request)))
    request.wrong_type(
        "an array: of numpy or torch, or anything with DLPack, CUDA's array interface or the "
        "buffer protocol");
  if (!is_scattered_) return;
  try {
    pack(request);
  } catch (...) {
    release();
    throw;
  }
}

template <typename Extent, typename Stride>
void Held::take_rows(std::size_t dimensions, Extent extent, Stride stride, std::size_t unit) {
  const auto elem_bytes = static_cast<std::int64_t>(size_of(type_)) * parts_;
  const auto at = [&](std::size_t i) {
    return Dimension{static_cast<std::int64_t>(extent(i)),
                     static_cast<std::int64_t>(stride(i)) * static_cast<std::int64_t>(unit)};
  };
  for (std::size_t i = 0; i < dimensions; i++)
    if (extent(i) == 0) return;
  if (const auto rows = rows_of(dimensions, elem_bytes, at)) {
    if (rows->number == 1) return;
    row_length_ = static_cast<std::size_t>(rows->length * parts_);
    stride_ = static_cast<std::size_t>(rows->apart * parts_);
    return;
  }
  is_scattered_ = true;
  std::vector<Dimension> all;
  for (std::size_t i = 0; i < dimensions; i++) all.push_back(at(i));
  shares_memory_ = may_share_memory(std::move(all), elem_bytes);
}

void Held::pack(const Request& request) {
  const bool is_writable = is_writable_ && !shares_memory_;
  if (request.access == Access::write && shares_memory_)
    request.wrong_value("elements that do not share memory");
  const nb::object made = helpers().pack(request.object, request.access == Access::write);
  if (made.is_none()) request.not_contiguous(is_of_gpu_);
  Held copy(made[0], Access::write, request.call, request.argument);
  copy.object_ = object_;
  copy.is_writable_ = is_writable;
  copy.packed_ = made;
  *this = std::move(copy);
}

bool Held::take_numpy(const Request& request) {
  auto* const object = request.object.ptr();
  const auto& known = numpy();
  if (Py_TYPE(object) != known.array.load(std::memory_order_acquire)) return false;
  const auto& array = *reinterpret_cast<const NumpyArray*>(object);
  const auto* const element = known.types.of(array.dtype);
  constexpr int kPlain = NumpyArray::kCOrder | NumpyArray::kAligned;
  const bool is_plain = (array.flags & kPlain) == kPlain;
  is_writable_ = (array.flags & NumpyArray::kWritable) != 0;
  // The buffer tells what is wrong with it.
  if (element == nullptr || !is_plain || (request.access == Access::write && !is_writable_))
    return false;
  owner_ = nb::borrow(request.object);
  data_ = array.data;
  type_ = element->type;
  parts_ = element->parts;
  count_ = static_cast<std::size_t>(parts_);
  for (int i = 0; i < array.dimensions; i++) count_ *= static_cast<std::size_t>(array.shape[i]);
  return true;
}

bool Held::take_exchanged(const Request& request) {
  auto* const object = request.object.ptr();
  const auto* const found = exchanging_types().of(Py_TYPE(object));
  if (found == nullptr) return false;
  const auto& api = **found;
  nb::dlpack::dltensor shown;
  if (api.from_object(object, &shown) != 0) {
    PyErr_Clear();  // take_torch says what is wrong
    return false;
  }
  const bool is_cuda = shown.device.device_type == nb::device::cuda::value;
  const bool is_complex = shown.dtype.code == 5;
  const auto element = element_of_dlpack(shown.dtype);
  if (!element || (is_complex && shown.dtype.bits < 64) || has_lazy_bit(object, is_complex) ||
      (!is_cuda && shown.device.device_type != nb::device::cpu::value))
    return false;
  type_ = element->type;
  parts_ = element->parts;
  count_ = static_cast<std::size_t>(parts_);
  for (int i = 0; i < shown.ndim; i++) count_ *= static_cast<std::size_t>(shown.shape[i]);
  take_rows(
      static_cast<std::size_t>(shown.ndim), [&](auto i) { return shown.shape[i]; },
      [&](auto i) { return shown.strides[i]; }, size_of(type_) * static_cast<std::size_t>(parts_));
  data_ = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(shown.data) + shown.byte_offset);
  is_of_gpu_ = is_cuda;
  if (is_cuda) {
    void* stream = nullptr;
    if (api.current_stream(nb::device::cuda::value, shown.device.device_id, &stream) != 0)
      nb::raise_python_error();
    stream_ = static_cast<cudaStream_t>(stream);
  }
  is_writable_ = true;
  owner_ = nb::borrow(request.object);
  return true;
}

bool Held::take_buffer(const Request& request) {
  if (!PyObject_CheckBuffer(request.object.ptr())) return false;
  if (PyObject_GetBuffer(request.object.ptr(), &view_, PyBUF_FULL_RO) != 0) {
    PyErr_Clear();  // numpy's way to say that the protocol has no such type
    return false;
  }
  has_view_ = true;
  try {
    const Element element = request.element(element_of_format(view_.format, view_.itemsize));
    if (view_.readonly != 0 && request.access == Access::write) request.read_only();
    data_ = view_.buf;
    type_ = element.type;
    parts_ = element.parts;
    for (int i = 0; view_.suboffsets != nullptr && i < view_.ndim; i++)
      if (view_.suboffsets[i] >= 0) request.not_contiguous(false);  // pointers to rows
    if (PyBuffer_IsContiguous(&view_, 'C') == 0)
      take_rows(
          static_cast<std::size_t>(view_.ndim), [&](auto i) { return view_.shape[i]; },
          [&](auto i) { return view_.strides[i]; }, 1);
    count_ = static_cast<std::size_t>(view_.len) / size_of(type_);
    is_writable_ = view_.readonly == 0;
    learn(request.object.ptr(), view_, element);
  } catch (...) {
    release();
    throw;
  }
  return true;
}

bool Held::take_torch(const Request& request) {
  const auto* const known = torch();
  if (known == nullptr || PyObject_IsInstance(request.object.ptr(), known->tensor.ptr()) != 1)
    return false;
  const nb::object tensor = nb::borrow(request.object);
  const nb::object dtype = tensor.attr("dtype");
  if (!known->types.contains(dtype)) request.element(std::nullopt);
  const int number = nb::cast<int>(known->types[dtype]);
  const bool is_cuda = nb::cast<bool>(tensor.attr("is_cuda"));
  if (!is_cuda && !nb::cast<bool>(tensor.attr("is_cpu")))
    request.wrong_type("a tensor in memory of the host or of a CUDA device");
  if (nb::cast<bool>(tensor.attr("is_sparse")) || nb::cast<bool>(tensor.attr("is_quantized")))
    request.wrong_type("a dense tensor");
  parts_ = number >= 100 ? 2 : 1;
  type_ = static_cast<DataType>(number % 100);
  count_ = nb::cast<std::size_t>(tensor.attr("numel")()) * parts_;
  if (!nb::cast<bool>(tensor.attr("is_contiguous")())) {
    const auto shape = nb::cast<std::vector<std::int64_t>>(nb::tuple(tensor.attr("shape")));
    const auto strides = nb::cast<std::vector<std::int64_t>>(tensor.attr("stride")());
    take_rows(
        shape.size(), [&](auto i) { return shape[i]; }, [&](auto i) { return strides[i]; },
        size_of(type_) * static_cast<std::size_t>(parts_));
  }
  // Its memory may hold other values.
  is_scattered_ = is_scattered_ || nb::cast<bool>(tensor.attr("is_conj")()) ||
                  nb::cast<bool>(tensor.attr("is_neg")());
  data_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(tensor.attr("data_ptr")()));
  is_of_gpu_ = is_cuda;
  if (is_cuda) {
    const nb::object of = nb::module_::import_("torch.cuda").attr("current_stream");
    stream_ = stream_of(nb::cast<std::uintptr_t>(of(tensor.attr("device")).attr("cuda_stream")));
  }
  is_writable_ = true;
  owner_ = tensor;
  learn_to_exchange(Py_TYPE(request.object.ptr()));
  return true;
}

void Held::take_memory(const Request& request, const nb::dict& interface) {
  const auto data = nb::cast<nb::tuple>(interface["data"]);
  if (nb::cast<bool>(data[1]) && request.access == Access::write) request.read_only();
  const auto shape = nb::cast<std::vector<std::int64_t>>(interface["shape"]);
  count_ = static_cast<std::size_t>(parts_);
  for (const auto extent : shape) count_ *= static_cast<std::size_t>(extent);
  data_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
  if (interface.contains("strides") && !interface["strides"].is_none()) {
    const auto strides = nb::cast<std::vector<std::int64_t>>(interface["strides"]);
    take_rows(
        shape.size(), [&](auto i) { return shape[i]; }, [&](auto i) { return strides[i]; }, 1);
  }
  is_writable_ = !nb::cast<bool>(data[1]);
  owner_ = nb::borrow(request.object);
}

bool Held::take_interface(const Request& request) {
  if (!nb::hasattr(request.object, "__array_interface__")) return false;
  const auto interface = nb::cast<nb::dict>(request.object.attr("__array_interface__"));
  const auto name = nb::cast<std::string>(nb::str(request.object.attr("dtype").attr("name")));
  type_ = request.element(element_of_name(name)).type;
  take_memory(request, interface);
  return true;
}

bool Held::take_cuda_interface(const Request& request) {
  if (!nb::hasattr(request.object, "__cuda_array_interface__")) return false;
  const auto interface = nb::cast<nb::dict>(request.object.attr("__cuda_array_interface__"));
  auto known = element_of_typestr(nb::cast<std::string>(interface["typestr"]));
  if (!known && nb::hasattr(request.object, "dtype"))  // a type that numpy does not have
    known = element_of_name(nb::cast<std::string>(nb::str(request.object.attr("dtype"))));
  const Element element = request.element(known);
  type_ = element.type;
  parts_ = element.parts;
  take_memory(request, interface);
  is_of_gpu_ = true;
  if (interface.contains("mask") && !interface["mask"].is_none())
    request.wrong_value("an array without a mask");
  if (interface.contains("stream") && !interface["stream"].is_none())
    stream_ = stream_of(nb::cast<std::uintptr_t>(interface["stream"]));
  return true;
}

bool Held::take_dlpack(const Request& request) {
  if (!nb::hasattr(request.object, "__dlpack__")) return false;
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(request.object, array, false))
    request.wrong_type("an array that exports its memory by DLPack");
  if (array.device_type() != nb::device::cpu::value &&
      array.device_type() != nb::device::cuda::value)
    request.wrong_type("an array in memory of the host or of a CUDA device");
  if (request.access == Access::write) {
    nb::ndarray<> writable;
    if (!nb::try_cast(request.object, writable, false)) request.read_only();
  }
  const Element element = request.element(element_of_dlpack(array.dtype()));
  data_ = const_cast<void*>(static_cast<const void*>(array.data()));
  type_ = element.type;
  parts_ = element.parts;
  take_rows(
      array.ndim(), [&](auto i) { return array.shape(i); }, [&](auto i) { return array.stride(i); },
      size_of(type_) * static_cast<std::size_t>(parts_));
  count_ = array.size() * static_cast<std::size_t>(parts_);
  exported_ = std::make_shared<nb::ndarray<nb::ro>>(array);
  is_of_gpu_ = array.device_type() == nb::device::cuda::value;
  return true;
}

void Held::release() noexcept {
  if (std::exchange(has_view_, false)) PyBuffer_Release(&view_);
  exported_.reset();
  owner_.reset();
  packed_.reset();
}

Held::Held(Held&& other) noexcept
    : object_(other.object_),
      owner_(std::move(other.owner_)),
      exported_(std::move(other.exported_)),
      view_(other.view_),
      has_view_(std::exchange(other.has_view_, false)),
      is_writable_(other.is_writable_),
      packed_(std::move(other.packed_)),
      data_(other.data_),
      count_(other.count_),
      row_length_(other.row_length_),
      stride_(other.stride_),
      type_(other.type_),
      parts_(other.parts_),
      stream_(other.stream_) {}

Held& Held::operator=(Held&& other) noexcept {
  if (this == &other) return *this;
  release();
  object_ = other.object_;
  owner_ = std::move(other.owner_);
  exported_ = std::move(other.exported_);
  view_ = other.view_;
  has_view_ = std::exchange(other.has_view_, false);
  is_writable_ = other.is_writable_;
  packed_ = std::move(other.packed_);
  data_ = other.data_;
  count_ = other.count_;
  row_length_ = other.row_length_;
  stride_ = other.stride_;
  type_ = other.type_;
  parts_ = other.parts_;
  stream_ = other.stream_;
  return *this;
}

Held::~Held() { release(); }

Output output_for(nb::handle out, nb::handle input, Form form, int size, std::size_t count) {
  if (!out.is_none()) return {nb::borrow(out), nb::none()};
  nb::object made = helpers().empty(input, static_cast<int>(form), size, count);
  if (!PyTuple_Check(made.ptr())) return {std::move(made), nb::none()};
  if (CallGroup::of_thread() != nullptr)
    refuse("out is None in a CallGroup: expected an array, as one of this kind is made at the end");
  const auto pair = nb::cast<nb::tuple>(made);
  return {nb::object(pair[0]), nb::object(pair[1])};
}

}  // namespace ccoll::python
