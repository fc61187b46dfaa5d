// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Offers callers' memory (registrations.hpp) to the other ranks of a group, which then read slices
/// where they lie. Each rank maps what others offer, on a thread of its own, and answers.
/// Everything else goes through slots, also memory that some rank has not mapped yet. Only in
/// builds with CUDA; knows no CUDA itself.
///
/// Only the rank itself knows whether its buffer is lent, while all ranks enqueue their parts of a
/// call ahead. So readers find out when they run. With steps, the lender's stream says before a
/// call's first slice in which memory each buffer lies, and where in it. It takes that back at the
/// call's end, behind the wait for all that it has sent to be read (kLoanWords). With the team
/// kernel, blocks say so with the first slice of each channel, and wait for the same before they
/// end (TeamLoans). Readers' kernels look there, and find the memory's address among those that
/// their own host has mapped (LoanPlace).
///
/// Why nobody reads memory that is gone, or the wrong memory:
/// - A rank lends a memory only once all others have answered that they have mapped it; their hosts
///   write the place before they answer. No stream waits for that, so a rank that does not answer
///   costs a copy and holds nobody up.
/// - A memory that is freed is taken back. It belongs to its calls until the lender's stream has
///   passed them, by which time everybody has read; readers then unmap it. But if the group has
///   been given up, streams pass before others have read: then mapped memory stays mapped until the
///   group ends, after its streams have. The abort word is there before it lets any stream go on,
///   so before the memory can be freed.
/// - A memory's number is never used again. So another memory at the same address, or at the same
///   place in the tables, is never taken for it: a reader compares. Offers and withdrawals come in
///   order.
/// - A mapping keeps memory of ccoll::allocate alive if its owner is killed; what it lent is read,
///   or given up. CUDA does not say whether a mapping keeps memory of cudaMalloc.
/// - The user must not free memory of cudaMalloc as long as anybody has it open. Each reader closes
///   it on hearing that it is taken back, and the user may wait for that (ipc_memory.hpp).
/// - A graph contains what it lends: its memory is kept as long as the graph may run, as all of a
///   graph's buffers are. If it is not, kernels fail rather than read what replaced it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/result.hpp"
#include "gpu/exchange.hpp"
#include "gpu/group/group_words.hpp"
#include "gpu/memory/lendable.hpp"
#include "gpu/memory/registrations.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"

namespace ccoll::device {

/// One rank's part. Thread-safe.
class Lending final : public Registrations::Watcher {
 public:
  struct Loan {
    std::uint32_t number;  ///< the memory's
    std::uint64_t offset;  ///< in the memory
  };

  /// All ranks call it. `words` must outlive it, and be the same memory for all.
  static Result<std::shared_ptr<Lending>> make(std::uint32_t rank, std::uint32_t size, int device,
                                               GroupWords words, Exchange& exchange,
                                               Exchange::TimePoint deadline);
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  /// Takes back what is lent and unmaps what is borrowed: nobody may read it any more. Announces it
  /// to the other ranks, except those that take no message within a second.
  ~Lending() override;

  /// How the others find these bytes. Empty if they are not registered, if some rank cannot map
  /// them, and until all have. The first call begins the mapping; each waits at most `patience`.
  std::optional<Loan> find(const std::byte* data, std::uint64_t bytes,
                           std::chrono::milliseconds patience);
  void withdraw(std::uint64_t id) override;

 private:
  struct Message {
    enum class Kind : std::uint8_t { offer = 1, withdrawal, mapped, refused };
    Kind kind = Kind::offer;
    std::uint32_t from = 0;
    std::uint32_t number = 0;
    std::string text = {};                   ///< an offer's directions, or why it is refused
    FileDescriptor file = FileDescriptor();  ///< an offer's
  };
  /// Messages to one other rank, in order.
  struct Outbox {
    FileDescriptor socket;  ///< none: the rank takes no more messages
    std::deque<Message> waiting;
  };
  struct Lent {
    std::uint32_t number = 0;  ///< 0: there is no place for it
    std::uint32_t answers = 0;
    bool is_refused = false;
  };

  /// All that is lent, and the messages about it.
  struct Books {
    std::uint32_t rank;
    std::vector<Outbox> outboxes;        ///< by rank
    std::map<std::uint64_t, Lent> lent;  ///< by id
    std::vector<std::uint32_t> rounds;   ///< by place, numbers it had
    std::vector<bool> taken;             ///< by place
    bool is_refusal_logged = false;
    bool is_over = false;
    std::condition_variable changed;  ///< of `lent`

    Books(std::uint32_t rank, std::uint32_t size);
    Status offer(Lendable& memory, std::uint32_t number);
    void withdraw(const Lent& of);
    void log_refusal(std::string_view why);
    void send(std::uint32_t to, Message message);
    /// Whether some messages have to be tried again.
    bool send_waiting();
    void close(Outbox& outbox);
    std::uint32_t take_number();
  };

  Lending(std::uint32_t rank, std::uint32_t size, int device, GroupWords words);
  Status open(Exchange& exchange, Exchange::TimePoint deadline);
  void serve();
  void hear();
  void take(Message message);
  Status borrow(Message offer);
  void give_back(const Message& withdrawal);
  void note_answer(const Message& answer);
  void wake() const;

  const std::uint32_t rank_;
  const std::uint32_t size_;
  const int device_;
  const GroupWords words_;
  FileDescriptor wakes_;  // immutable after open()
  FileDescriptor inbox_;  // the thread's after open()
  /// The memory that others lend, by lender and place. The thread's after open().
  std::map<std::pair<std::uint32_t, std::uint32_t>, Borrowed> borrowed_;

  Guarded<Books> books_;
  std::thread thread_;
};

}  // namespace ccoll::device
