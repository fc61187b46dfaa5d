// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Python objects as blocks. A block is the object's own memory; of an array with gaps between its
/// elements it is the rows, if they are equally far apart. An array that no block can be is packed
/// by its library for the call. Memory of a GPU comes with the stream in which the array's library
/// works at the moment.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ccoll/ccoll.hpp"

namespace ccoll::python {

namespace nb = nanobind;

/// Python functions of the package that the extension calls; `_native._use` sets them.
struct Helpers {
  nb::object error;       ///< (kind, text) -> an exception
  nb::object describe;    ///< (object) -> its type, shape and strides, for errors
  nb::object empty;       ///< (like, form, size, count) -> an array, or a tuple (array, finish)
  nb::object pack;        ///< (object, whether it is written) -> (its copy, target), or None
  nb::object copies;      ///< () -> what add((copy, target)) gives it, it copies back when called
  nb::object torch_map;   ///< () -> (torch.Tensor, {dtype: number of a DataType})
  nb::object combine;     ///< (function, in, inout, type) -> None
  nb::object finish_all;  ///< ((arrays, finishes)) -> arrays
  nb::object is_neg;      ///< names of a torch.Tensor's methods
  nb::object is_conj;
};
Helpers& helpers();

/// Memory of one Python object, which is kept until this ends. Both ends need the GIL.
class Held {
 public:
  enum class Access : std::uint8_t { read, write };

  /// Throws TypeError or Error{invalid_argument}; both name the call, the argument and what it is.
  Held(nb::handle object, Access access, const char* call, const char* argument);
  Held(Held&& other) noexcept;
  Held& operator=(Held&& other) noexcept;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();

  Block block() const { return {data_, count_, type_, row_length_, stride_}; }
  /// Whether it is known to be that object's memory, which may be written.
  bool is_writable(nb::handle object) const { return object.ptr() == object_ && is_writable_; }
  /// Elements of a block that one of Python's has: 2 for complex numbers, else 1.
  int parts() const { return parts_; }
  /// A pair (copy, target); not valid where the block is the object's own memory.
  const nb::object& packed() const { return packed_; }
  /// None for memory of the host, and where the library does not tell.
  std::optional<cudaStream_t> stream() const { return stream_; }

 private:
  struct Request;
  bool take_numpy(const Request& request);
  bool take_exchanged(const Request& request);
  bool take_buffer(const Request& request);
  bool take_torch(const Request& request);
  bool take_interface(const Request& request);
  bool take_cuda_interface(const Request& request);
  /// The part that the interfaces of arrays on the host and on GPUs have in common.
  void take_memory(const Request& request, const nb::dict& interface);
  bool take_dlpack(const Request& request);
  /// How an array with these extents lies, and strides in units of `unit` bytes; in elements of
  /// which one has parts_.
  template <typename Extent, typename Stride>
  void take_rows(std::size_t dimensions, Extent extent, Stride stride, std::size_t unit);
  /// Becomes a copy in which the elements lie one after another.
  void pack(const Request& request);
  void release() noexcept;

  PyObject* object_ = nullptr;  ///< to compare with
  nb::object owner_;
  std::shared_ptr<void> exported_;  ///< by DLPack
  Py_buffer view_{};
  bool has_view_ = false;
  bool is_writable_ = false;
  bool is_of_gpu_ = false;
  bool is_scattered_ = false;  ///< no block is the object's own memory
  bool shares_memory_ = false;
  nb::object packed_;
  void* data_ = nullptr;
  std::size_t count_ = 0;
  std::size_t row_length_ = 0;  ///< 0: the elements lie one after another
  std::size_t stride_ = 0;
  DataType type_ = DataType::uint8;
  int parts_ = 1;
  std::optional<cudaStream_t> stream_;
};

/// The arrays of one call.
class Arguments {
 public:
  explicit Arguments(const char* call) : call_(call) {}

  ConstBlock read(nb::handle object, const char* argument) {
    return add(object, Held::Access::read, argument).block();
  }
  Block write(nb::handle object, const char* argument) {
    // In place: asking an object for its memory is much of what a small call costs.
    if (first_ && first_->is_writable(object)) {
      last_parts_ = first_->parts();
      return written(*first_);
    }
    return written(add(object, Held::Access::write, argument));
  }
  const char* call() const { return call_; }
  /// The first array has so many; 1 where there is no array.
  int parts() const { return first_ ? first_->parts() : 1; }
  int last_parts() const { return last_parts_; }
  /// The options of the call: it takes its place in the stream of the arrays, if they have one.
  CallOptions in_stream(CallOptions options) const {
    options.stream = stream_;
    return options;
  }
  /// Brings results to where the caller wants them; not valid where they are there.
  const nb::object& copies() const { return copies_; }
  /// The same for memory of a GPU, which takes its place in the stream behind the call.
  const nb::object& copies_in_stream() const { return copies_in_stream_; }
  std::vector<Held> take() {
    if (first_) more_.push_back(std::move(*first_));
    return std::move(more_);
  }

 private:
  Block written(const Held& held) {
    if (held.packed().is_valid()) {
      auto& copies = held.stream() ? copies_in_stream_ : copies_;
      if (!copies.is_valid()) copies = helpers().copies();
      copies.attr("add")(held.packed());
    }
    return held.block();
  }
  const Held& add(nb::handle object, Held::Access access, const char* argument) {
    const Held& held = first_ ? more_.emplace_back(object, access, call_, argument)
                              : first_.emplace(object, access, call_, argument);
    last_parts_ = held.parts();
    if (!stream_) stream_ = held.stream();
    return held;
  }

  const char* call_;
  int last_parts_ = 1;
  std::optional<cudaStream_t> stream_;
  std::optional<Held> first_;  ///< a call in place has one alone, and no vector
  std::vector<Held> more_;
  nb::object copies_, copies_in_stream_;  ///< made before the call begins, which may not fail then
};

/// Where a result goes: the caller's own array, or a new one.
struct Output {
  nb::object array;
  nb::object finish;  ///< turns a new array into the caller's kind; none where it is that already
};

/// How a new array is related to the input.
enum class Form : std::uint8_t {
  like,     ///< the same shape
  stacked,  ///< one more dimension in front, `size` long
  part,     ///< without the first dimension, which must be `size` long
  flat,     ///< one dimension of `count` elements
};
Output output_for(nb::handle out, nb::handle input, Form form, int size, std::size_t count = 0);

bool is_list(nb::handle object);
[[noreturn]] void refuse(const std::string& text);

}  // namespace ccoll::python
