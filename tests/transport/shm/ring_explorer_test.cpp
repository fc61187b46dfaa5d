// SPDX-License-Identifier: Apache-2.0
// Explores shared-memory links' ring and the sleep of its two ends under C++'s memory model. It
// runs the code of transport/shm/ring.hpp and transport/sleep_word.hpp on another atomic type.
#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <vector>

#include "support/effort.hpp"
#include "transport/shm/explorer.hpp"
#include "transport/shm/ring_reader.hpp"
#include "transport/shm/ring_writer.hpp"
#include "transport/sleep_word.hpp"

using namespace ccoll;
using testing::Explorer;
using testing::ModelAtomic;

namespace {

constexpr std::uint64_t kSlices = 3;

using Ring = shm::BasicRing<ModelAtomic, 2, 1>;
using Word = BasicSleepWord<ModelAtomic>;

/// In the line, in a slot, and in a slot whose reuse the writer checks for.
constexpr std::size_t kSmall = Ring::Line::kDataBytes, kMiddle = kSmall + 1, kLarge = 8 << 10;
constexpr std::size_t kLong = 40 << 10;  ///< no slice lies behind it

alignas(4096) std::array<std::byte, Ring::kBytes> memory;

/// One end's part in the sleep: its word, and the number of its eventfd.
struct Sleeper {
  explicit Sleeper(std::uint32_t number) : event(number) {}
  Word word;
  const std::uint32_t event;
};

/// A deliberate error, to show that the search would find it.
struct Fault {
  const char* name = "none";
  std::optional<std::memory_order> stamp_stored{}, popped_stored{}, word_stored{};
  std::optional<std::memory_order> stamp_loaded{}, popped_loaded{}, word_loaded{};
  bool asks_before_it_stores = false;
  bool sleeps_without_a_look = false;
  bool ignores_what_is_full = false;
};

class Game {
 public:
  /// The writer begins with `slots` and may use 2 when it lacks some, if it grows. From slice
  /// `first_behind` on, short ones lie one behind another.
  Game(std::array<std::size_t, kSlices> sizes, const Fault& fault, std::uint32_t slots = 2,
       bool grows = false, std::uint64_t first_behind = kSlices)
      : sizes_(sizes), fault_(fault), slots_(slots), grows_(grows), first_behind_(first_behind) {}

  Explorer::Outcome play() {
    return explorer_.explore([this] { set_up(); }, {[this] { write(); }, [this] { read(); }});
  }

 private:
  void set_up() {
    ring_ = Ring::make(memory.data());
    for (auto* sleeper : {&writer_, &reader_}) {
      sleeper->emplace(sleeper == &writer_ ? 0 : 1);
      weaken(explorer_.last_location(), fault_.word_stored, fault_.word_loaded);
    }
    for (auto& line : ring_->lines)
      weaken(line.stamp.location(), fault_.stamp_stored, fault_.stamp_loaded);
    weaken(ring_->popped.location(), fault_.popped_stored, fault_.popped_loaded);
  }
  void weaken(std::uint32_t location, std::optional<std::memory_order> stores,
              std::optional<std::memory_order> loads) {
    if (stores) explorer_.weaken_stores(location, *stores);
    if (loads) explorer_.weaken_loads(location, *loads);
  }

  void write() {
    shm::BasicRingWriter<Ring> writer(ring_, slots_, Ring::kLines, nullptr, first_behind_);
    for (std::uint64_t i = 0; i < kSlices; i++) {
      const auto has_room = [&] {
        const bool has_room = writer.has_room();
        if (grows_ && !has_room && writer.lacks_slot()) writer.use(2);
        return has_room;
      };
      if (!fault_.ignores_what_is_full) sleep_until(*writer_, has_room);
      explorer_.write(cell_of(writer.room(sizes_[i])));
      explorer_.write(i % Ring::kLines);
      tell(*reader_, [&] {
        writer.push({i, {}, static_cast<std::uint32_t>(sizes_[i]), 0});
        return true;
      });
    }
  }

  void read() {
    shm::BasicRingReader<Ring> reader(ring_);
    for (std::uint64_t i = 0; i < kSlices; i++) {
      sleep_until(*reader_, [&] { return reader.there(); });
      explorer_.read(i % Ring::kLines);
      const auto header = reader.header();
      explorer_.require(header.sequence == i, "a slice of another number");
      explorer_.read(cell_of(Ring::Line::holds(header.bytes) ? reader.in_line()
                                                             : reader.in_slot(reader.place())));
      tell(*writer_, [&] { return reader.pop(header.bytes); });
    }
  }

  /// Sleeps as the engine does (Waiter).
  template <typename Look>
  void sleep_until(Sleeper& own, Look there_is_news) {
    while (!there_is_news()) {
      own.word.set_asleep();
      if (fault_.sleeps_without_a_look || !there_is_news()) explorer_.sleep(own.event);
      own.word.set_awake();
    }
  }
  /// `store_news`: whether it stored any; a popped line may be reported later.
  template <typename Store>
  void tell(Sleeper& other, Store store_news) {
    const bool asked_too_early = fault_.asks_before_it_stores && other.word.wants_ring();
    if (!store_news()) return;
    if (fault_.asks_before_it_stores ? asked_too_early : other.word.wants_ring())
      explorer_.ring(other.event);
  }

  /// Lines come first, then the places in slots.
  static std::size_t cell_of(const std::byte* data) {
    const auto offset = static_cast<std::size_t>(data - memory.data());
    if (offset < Ring::kFirstSlot) return offset / sizeof(Ring::Line);
    const auto behind = (offset - Ring::kFirstSlot) % shm::kSlotBytes;
    const auto place = behind > kLarge ? 2U : behind > 0 ? 1U : 0U;
    return Ring::kLines + (offset - Ring::kFirstSlot) / shm::kSlotBytes * 3 + place;
  }

  const std::array<std::size_t, kSlices> sizes_;
  const Fault fault_;
  const std::uint32_t slots_;
  const bool grows_;
  const std::uint64_t first_behind_;
  Explorer explorer_;
  Ring* ring_ = nullptr;
  std::optional<Sleeper> writer_, reader_;
};

/// One lent slice that may be taken back while it is read: the writer waits for the reader for a
/// number of looks and then overwrites it anyway.
class LoanGame {
 public:
  struct Fault {
    const char* name = "none";
    std::optional<std::memory_order> revoked_stored{}, reading_stored{};
    std::optional<std::memory_order> revoked_loaded{}, reading_loaded{};
    bool does_not_look_at_the_reader = false;
    bool does_not_look_again = false;
  };
  /// The outcomes that some runs had.
  struct Seen {
    bool read = false, refused = false, found_out = false, given_up = false;
  };

  LoanGame(int looks, const Fault& fault) : looks_(looks), fault_(fault) {}

  Explorer::Outcome play() {
    return explorer_.explore([this] { set_up(); }, {[this] { write(); }, [this] { read(); }});
  }
  const Seen& seen() const { return seen_; }

 private:
  static constexpr std::size_t kLent = 7;

  void set_up() {
    ring_ = Ring::make(memory.data());
    overwritten_ = false;
    const auto weaken = [&](const auto& atomic, auto stores, auto loads) {
      if (stores) explorer_.weaken_stores(atomic.location(), *stores);
      if (loads) explorer_.weaken_loads(atomic.location(), *loads);
    };
    weaken(ring_->revoked, fault_.revoked_stored, fault_.revoked_loaded);
    weaken(ring_->reading, fault_.reading_stored, fault_.reading_loaded);
  }

  void write() {
    shm::BasicRingWriter<Ring> writer(ring_, 1);
    explorer_.write(kLent);
    writer.lend({0, {}, kLarge, 0}, 0, 0);
    if (writer.drained()) return;
    writer.revoke();
    for (int look = 0; look < looks_ && !fault_.does_not_look_at_the_reader; look++)
      if (!writer.is_read()) return explorer_.write(kLent);
    if (fault_.does_not_look_at_the_reader) return explorer_.write(kLent);
    overwritten_ = seen_.given_up = true;
  }

  void read() {
    shm::BasicRingReader<Ring> reader(ring_);
    if (!reader.there()) return;
    explorer_.require(reader.place().slot == Ring::kLent, "a loan is known as one");
    if (!reader.begin_loan()) {
      seen_.refused = true;
      return;
    }
    explorer_.read(kLent);
    static_cast<void>(ring_->writer_gone.load());  // takes time, in which anything may happen
    const bool too_late = overwritten_;
    const bool good = fault_.does_not_look_again || reader.end_loan();
    explorer_.require(!good || !too_late, "what was overwritten is used");
    reader.pop(kLarge);
    (good ? seen_.read : seen_.found_out) = true;
  }

  const int looks_;
  const Fault fault_;
  Explorer explorer_;
  Ring* ring_ = nullptr;
  bool overwritten_ = false;
  Seen seen_;
};

/// Lent slices that their reader cannot read and so refuses: the writer copies each and stamps it
/// again.
class RefusalGame {
 public:
  struct Fault {
    const char* name = "none";
    std::optional<std::memory_order> stamp_stored{}, refused_stored{}, popped_stored{};
    std::optional<std::memory_order> stamp_loaded{}, refused_loaded{}, popped_loaded{};
  };

  explicit RefusalGame(const Fault& fault) : fault_(fault) {}

  Explorer::Outcome play() {
    return explorer_.explore([this] { set_up(); }, {[this] { write(); }, [this] { read(); }});
  }

 private:
  static constexpr std::size_t kLine = 0, kRemade = 7;  ///< the slice's, and the copy's

  void set_up() {
    ring_ = Ring::make(memory.data());
    for (auto* sleeper : {&writer_, &reader_}) sleeper->emplace(sleeper == &writer_ ? 0 : 1);
    const auto weaken = [&](const auto& atomic, auto stores, auto loads) {
      if (stores) explorer_.weaken_stores(atomic.location(), *stores);
      if (loads) explorer_.weaken_loads(atomic.location(), *loads);
    };
    for (auto& line : ring_->lines) weaken(line.stamp, fault_.stamp_stored, fault_.stamp_loaded);
    weaken(ring_->refused, fault_.refused_stored, fault_.refused_loaded);
    weaken(ring_->popped, fault_.popped_stored, fault_.popped_loaded);
    explorer_.before_stores([this](std::uint32_t location, std::uint64_t value) {
      if (location != ring_->lines[kLine].stamp.location()) return;
      explorer_.write(kLine);
      if ((value & Ring::kStampedAgain) != 0) explorer_.write(kRemade);
    });
  }

  void write() {
    static const std::array<std::byte, kMiddle> lent{};
    shm::BasicRingWriter<Ring> writer(ring_, 1);
    writer.lend_unmapped({0, {}, kMiddle, 0}, lent.data());
    ring(*reader_);
    sleep_until(*writer_, [&] {
      if (writer.remake()) ring(*reader_);
      return writer.drained();
    });
  }

  void read() {
    shm::BasicRingReader<Ring> reader(ring_);
    sleep_until(*reader_, [&] { return reader.there(); });
    explorer_.read(kLine);
    explorer_.require(reader.place().slot == Ring::kUnmapped, "lent where it cannot be read");
    reader.refuse();
    ring(*writer_);
    sleep_until(*reader_, [&] { return reader.is_remade(); });
    explorer_.read(kLine);
    explorer_.require(reader.place().slot == Ring::kRemade, "the copy is known as one");
    explorer_.read(kRemade);
    reader.pop(kMiddle);
    ring(*writer_);
  }

  template <typename Look>
  void sleep_until(Sleeper& own, Look there_is_news) {
    while (!there_is_news()) {
      own.word.set_asleep();
      if (!there_is_news()) explorer_.sleep(own.event);
      own.word.set_awake();
    }
  }
  void ring(Sleeper& other) {
    if (other.word.wants_ring()) explorer_.ring(other.event);
  }

  const Fault fault_;
  Explorer explorer_;
  Ring* ring_ = nullptr;
  std::optional<Sleeper> writer_, reader_;
};

/// The outcomes of two threads that run a litmus test on two atomics: r0 + 2 · r1.
struct Litmus {
  std::memory_order store, load;
  bool message;  // one thread stores both and the other loads both; else each stores one
  std::set<std::uint64_t> outcomes{};
  std::string failure{};

  void play() {
    Explorer explorer;
    std::optional<ModelAtomic<std::uint64_t>> a, b;
    std::array<std::uint64_t, 2> got{};
    int ended = 0;
    const auto end = [&] {
      if (++ended == 2) outcomes.insert(got[0] + 2 * got[1]);
    };
    const auto set_up = [&] {
      a.emplace(0);
      b.emplace(0);
      ended = 0;
    };
    if (message) {
      failure = explorer
                    .explore(set_up, {[&] {
                                        a->store(1, std::memory_order_relaxed);
                                        explorer.write(0);
                                        b->store(1, store);
                                        end();
                                      },
                                      [&] {
                                        got[0] = b->load(load);
                                        if (got[0] != 0) explorer.read(0);
                                        got[1] = a->load(std::memory_order_relaxed);
                                        end();
                                      }})
                    .failure;
    } else {
      failure = explorer
                    .explore(set_up, {[&] {
                                        a->store(1, store);
                                        got[0] = b->load(load);
                                        end();
                                      },
                                      [&] {
                                        b->store(1, store);
                                        got[1] = a->load(load);
                                        end();
                                      }})
                    .failure;
    }
  }
};

}  // namespace

TEST_CASE("explorer: knows what C++ promises of two atomics, and promises no more",
          "[transport][unit]") {
  constexpr auto kTotal = std::memory_order_seq_cst, kAcquire = std::memory_order_acquire,
                 kRelease = std::memory_order_release, kRelaxed = std::memory_order_relaxed;
  using Set = std::set<std::uint64_t>;
  const auto outcomes = [](Litmus litmus) {
    litmus.play();
    CHECK(litmus.failure == "");
    return litmus.outcomes;
  };
  // Each stores one and loads the other's. Only seq_cst on all four rules out that both miss it.
  CHECK(outcomes({kTotal, kTotal, false}) == Set{1, 2, 3});
  CHECK(outcomes({kTotal, kAcquire, false}) == Set{0, 1, 2, 3});
  CHECK(outcomes({kRelease, kTotal, false}) == Set{0, 1, 2, 3});
  // A thread that has seen the second has seen the first.
  CHECK(outcomes({kRelease, kAcquire, true}) == Set{0, 2, 3});
  for (const auto& [store, load] : {std::pair{kRelaxed, kAcquire}, {kRelease, kRelaxed}}) {
    Litmus litmus{store, load, true};
    litmus.play();
    CHECK(litmus.failure.starts_with("race on memory 0"));
  }
}

TEST_CASE(
    "ring: no slice is read before it is written, no slot overwritten before it is popped, "
    "and nobody sleeps for ever, whatever C++ allows",
    "[transport][property]") {
  std::vector<std::array<std::size_t, kSlices>> games;
  const std::array kSizes = {kSmall, kMiddle, kLarge};
  for (const auto first : kSizes)
    for (const auto second : kSizes)
      for (const auto third : kSizes) games.push_back({first, second, third});
  // A step of 5 covers every size in every place.
  const auto step = testing::by_effort<std::size_t>(13, 5, 1);
  for (std::size_t i = 0; i < games.size(); i += step) {
    for (const auto& [slots, grows] : {std::pair(1, false), {2, false}, {1, true}}) {
      CAPTURE(games[i], slots, grows);
      const auto outcome = Game(games[i], {}, static_cast<std::uint32_t>(slots), grows).play();
      CHECK(outcome.failure == "");
      CHECK(outcome.states > 5'000);
    }
  }
}

TEST_CASE("ring: slices that lie one behind another are not overwritten before they are popped",
          "[transport][property]") {
  const auto sizes = GENERATE(values<std::array<std::size_t, kSlices>>({
      {kLarge, kLong, kLarge},
      {kLarge, kLarge, kLong},
      {kLong, kLarge, kLong},
      {kLarge, kSmall, kLong},
      {kLarge, kLarge, kLarge},
  }));
  for (const auto& [slots, grows] : {std::pair(1, false), {2, false}, {1, true}}) {
    CAPTURE(sizes, slots, grows);
    const auto outcome = Game(sizes, {}, static_cast<std::uint32_t>(slots), grows, 0).play();
    CHECK(outcome.failure == "");
    CHECK(outcome.states > 1'000);
  }
}

TEST_CASE("ring: the explorer finds each weakening of the protocol", "[transport][property]") {
  constexpr auto kRelaxed = std::memory_order_relaxed, kRelease = std::memory_order_release,
                 kAcquire = std::memory_order_acquire;
  const std::pair<Fault, const char*> faults[] = {
      {{.name = "stamp stored relaxed", .stamp_stored = kRelaxed}, "race"},
      {{.name = "stamp loaded relaxed", .stamp_loaded = kRelaxed}, "race"},
      {{.name = "popped stored relaxed", .popped_stored = kRelaxed}, "race"},
      {{.name = "popped loaded relaxed", .popped_loaded = kRelaxed}, "race"},
      {{.name = "full is ignored", .ignores_what_is_full = true}, "asleep for ever"},
      {{.name = "stamp stored release", .stamp_stored = kRelease}, "asleep for ever"},
      {{.name = "stamp loaded acquire", .stamp_loaded = kAcquire}, "asleep for ever"},
      {{.name = "popped stored release", .popped_stored = kRelease}, "asleep for ever"},
      {{.name = "popped loaded acquire", .popped_loaded = kAcquire}, "asleep for ever"},
      {{.name = "word stored release", .word_stored = kRelease}, "asleep for ever"},
      {{.name = "word loaded acquire", .word_loaded = kAcquire}, "asleep for ever"},
      {{.name = "asks before it stores", .asks_before_it_stores = true}, "asleep for ever"},
      {{.name = "sleeps without a look", .sleeps_without_a_look = true}, "asleep for ever"},
  };
  for (const auto& [fault, what] : faults) {
    CAPTURE(fault.name);
    const auto outcome = Game({kLarge, kSmall, kLarge}, fault).play();
    CAPTURE(outcome.failure);
    CHECK(outcome.failure.find(what) == 0);
  }
}

TEST_CASE("ring: what was taken back is not read, or its reader finds out, whatever C++ allows",
          "[transport][property]") {
  for (const int looks : {0, 1, 2}) {
    LoanGame game(looks, {});
    CHECK(game.play().failure == "");
    CHECK(game.seen().read);
    CHECK(game.seen().refused);
    CHECK(game.seen().found_out);
    CHECK(game.seen().given_up);
  }
}

TEST_CASE("ring: the explorer finds each weakening of a loan", "[transport][property]") {
  constexpr auto kRelease = std::memory_order_release, kAcquire = std::memory_order_acquire,
                 kRelaxed = std::memory_order_relaxed;
  const std::pair<LoanGame::Fault, const char*> faults[] = {
      {{.name = "revoked stored release", .revoked_stored = kRelease}, "race"},
      {{.name = "revoked loaded acquire", .revoked_loaded = kAcquire}, "race"},
      {{.name = "reading stored release", .reading_stored = kRelease}, "race"},
      {{.name = "reading loaded acquire", .reading_loaded = kAcquire}, "race"},
      {{.name = "reading stored relaxed", .reading_stored = kRelaxed}, "race"},
      {{.name = "no look at the reader", .does_not_look_at_the_reader = true}, "race"},
      {{.name = "no second look", .does_not_look_again = true}, "what was overwritten is used"},
  };
  for (const auto& [fault, what] : faults) {
    CAPTURE(fault.name);
    const auto outcome = LoanGame(2, fault).play();
    CAPTURE(outcome.failure);
    CHECK(outcome.failure.find(what) == 0);
  }
}

TEST_CASE("ring: what cannot be read where it lies comes as a copy, and nobody sleeps for ever",
          "[transport][property]") {
  const auto outcome = RefusalGame({}).play();
  CHECK(outcome.failure == "");
  CHECK(outcome.states > 1'000);
}

TEST_CASE("ring: the explorer finds each weakening of a refusal", "[transport][property]") {
  constexpr auto kRelease = std::memory_order_release, kAcquire = std::memory_order_acquire,
                 kRelaxed = std::memory_order_relaxed;
  const std::pair<RefusalGame::Fault, const char*> faults[] = {
      {{.name = "refused stored release", .refused_stored = kRelease}, "asleep for ever"},
      {{.name = "refused loaded acquire", .refused_loaded = kAcquire}, "asleep for ever"},
      {{.name = "refused stored relaxed", .refused_stored = kRelaxed}, "race"},
      {{.name = "refused loaded relaxed", .refused_loaded = kRelaxed}, "race"},
      {{.name = "stamp stored release", .stamp_stored = kRelease}, "asleep for ever"},
      {{.name = "stamp loaded acquire", .stamp_loaded = kAcquire}, "asleep for ever"},
      {{.name = "stamp stored relaxed", .stamp_stored = kRelaxed}, "race"},
      {{.name = "popped stored release", .popped_stored = kRelease}, "asleep for ever"},
  };
  for (const auto& [fault, what] : faults) {
    CAPTURE(fault.name);
    const auto outcome = RefusalGame(fault).play();
    CAPTURE(outcome.failure);
    CHECK(outcome.failure.find(what) == 0);
  }
}
