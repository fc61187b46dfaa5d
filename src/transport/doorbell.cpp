// SPDX-License-Identifier: Apache-2.0
#include "transport/doorbell.hpp"

#include <unistd.h>

#include <utility>
#include <vector>

#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// One cache line each: a rank that falls asleep disturbs no other's peers.
constexpr std::size_t kCellBytes = 64;
constexpr std::uint32_t kCells = 64;

/// The process's free cells: a communicator's waiter takes one and gives it back.
class CellPool {
 public:
  struct Cell {
    std::shared_ptr<Segment> cells;
    std::uint32_t number = 0;
  };

  Result<Cell> take() {
    // A forked child's free cells are also its parent's.
    if (std::exchange(process_, getpid()) != getpid()) free_.clear();
    if (free_.empty()) {
      auto more = Segment::make("ccoll-doorbells", kCells * kCellBytes);
      // Without shared memory, no other process can map this cell anyway.
      if (!more && more.error().kind == ErrorKind::unsupported)
        more = Segment::make_private(kCells * kCellBytes);
      if (!more) return tl::unexpected(more.error());
      for (std::uint32_t i = kCells; i-- > 0;) free_.push_back({*more, i});
    }
    auto cell = std::move(free_.back());
    free_.pop_back();
    return cell;
  }
  void give_back(Cell cell) {
    if (process_ == getpid()) free_.push_back(std::move(cell));
  }

 private:
  pid_t process_ = -1;
  std::vector<Cell> free_;
};

Guarded<CellPool, ProcessMutex>& pool() { return Runtime::one<Guarded<CellPool, ProcessMutex>>(); }

}  // namespace

Doorbell::Cell& Doorbell::cell_in(const Segment& cells, std::uint32_t number) {
  static_assert(sizeof(Cell) <= kCellBytes && kCells <= 1U << kCellBits);
  return *reinterpret_cast<Cell*>(cells.data() + number * kCellBytes);
}

Result<std::shared_ptr<Doorbell>> Doorbell::make(std::shared_ptr<Chime> chime) {
  auto cell = pool().lock()->take();
  if (!cell) return tl::unexpected(cell.error());
  return std::shared_ptr<Doorbell>(
      new Doorbell(std::move(chime), std::move(cell->cells), cell->number, true));
}

Result<std::shared_ptr<Doorbell>> Doorbell::of_peer(FileDescriptor event,
                                                    const FileDescriptor& memory,
                                                    std::uint32_t number) {
  auto cells = Segment::map(memory, kCells * kCellBytes);
  if (!cells) return tl::unexpected(cells.error());
  const auto cell = number & ((1U << kCellBits) - 1);
  if (cell >= kCells)
    return fail(ErrorKind::corrupt, "the peer named doorbell {}, which does not exist", number);
  auto chime = Chime::of_peer(std::move(event), *cells, number >> kCellBits);
  return std::shared_ptr<Doorbell>(new Doorbell(std::move(chime), std::move(*cells), cell, false));
}

Doorbell::Doorbell(std::shared_ptr<Chime> chime, std::shared_ptr<Segment> cells, std::uint32_t cell,
                   bool mine)
    : chime_(std::move(chime)),
      cells_(std::move(cells)),
      cell_(cell),
      mine_(mine),
      word_(cell_in(*cells_, cell).word),
      rings_(cell_in(*cells_, cell).rings) {}

Doorbell::~Doorbell() {
  if (!mine_ || !cells_->is_mine()) return;
  set_awake();
  pool().lock()->give_back({cells_, cell_});
}

}  // namespace ccoll
