// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of callers (registrations.hpp) on its way to the other ranks of a group, so that these
/// read slices where they lie. Each rank maps what others offer, on a thread of its own, and says
/// so; everything else goes through slots, also what somebody has not mapped yet. Only in builds
/// with CUDA, of which it knows nothing here.
///
/// Whether a rank's buffer is lent that rank alone knows, while all have put their parts of a call
/// into their streams ahead. So readers find out when they run: the lender's stream says, before
/// the first slice of a call, in which memory each of its buffers is and where in it, and takes
/// that back at the call's end, behind the wait for all that it has sent to be read (kLoanWords);
/// or the team kernel's blocks say so with the first slice of each channel, and wait for the same
/// before they end (TeamLoans). Readers' kernels look there, and find the memory's address among
/// those that their own host has mapped (LoanPlace).
///
/// Why nobody reads what is gone, or something else:
/// - A rank lends a memory only once all others have said that they have mapped it, and their hosts
///   have written the place before they say so. It waits for that in no stream, so a rank that does
///   not answer costs a copy and holds nobody up.
/// - A memory that is freed is taken back. It belongs to its calls until the lender's stream has
///   passed them, and so everybody has read; who hears of it unmaps it. But where the group has
///   been given up, streams pass before others have read: then what is mapped stays mapped until
///   the group ends, after its streams have. Its abort word is there before any stream goes on by
///   it, so before the memory can be freed.
/// - A memory's number is its own for ever, so that one which comes to the same address, or to the
///   same place in the tables, is never taken for it: a reader compares. Offers and their end come
///   in order.
/// - A mapping keeps memory of ccoll::allocate alive whose owner has been killed; what it lent is
///   read, or given up. Whether it keeps memory of cudaMalloc CUDA does not say.
/// - Memory of cudaMalloc must not be freed by its user as long as anybody has it open. Each reader
///   closes it when it hears that it is taken back, and the user may wait for that
///   (ipc_memory.hpp).
/// - What a graph lends is in the graph: its memory is kept as long as the graph may run, as all of
///   a graph's buffers are. Where it is not, kernels fail rather than read what came after it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
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

namespace ccoll::device {

/// One rank's part. Thread-safe.
class Lending final : public Registrations::Watcher {
 public:
  struct Loan {
    std::uint32_t number;  ///< of the memory
    std::uint64_t offset;  ///< in it
  };

  /// By all ranks. `words` must outlive it, and be the same memory for all.
  static Result<std::shared_ptr<Lending>> make(std::uint32_t rank, std::uint32_t size, int device,
                                               GroupWords words, Exchange& exchange,
                                               Exchange::TimePoint deadline);
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  /// Takes back what is lent and unmaps what is borrowed: nobody may read it any more. Others hear
  /// of it, but for those that have heard nothing for a second.
  ~Lending() override;

  /// How the others find these bytes. Nothing where they are not registered, some rank cannot map
  /// them, and until all have: the first time that is asked begins it, and it may be waited for.
  std::optional<Loan> find(const std::byte* data, std::uint64_t bytes,
                           std::chrono::milliseconds patience);
  void withdraw(std::uint64_t id) override;

 private:
  struct Message {
    enum class Kind : std::uint8_t { offer = 1, withdrawal, mapped, refused };
    Kind kind = Kind::offer;
    std::uint32_t from = 0;
    std::uint32_t number = 0;
    std::string text = {};                   ///< of an offer the directions, of a refusal why
    FileDescriptor file = FileDescriptor();  ///< of an offer
  };
  /// To one other rank, in order.
  struct Outbox {
    FileDescriptor socket;  ///< none: it takes no more
    std::deque<Message> waiting;
  };
  struct Lent {
    std::uint32_t number = 0;  ///< 0: there is no place for it
    std::uint32_t answers = 0;
    bool is_refused = false;
  };

  Lending(std::uint32_t rank, std::uint32_t size, int device, GroupWords words);
  Status open(Exchange& exchange, Exchange::TimePoint deadline);
  void serve();
  void hear();
  void take(Message message);
  Status borrow(Message offer);
  void give_back(const Message& withdrawal);
  void note_answer(const Message& answer);
  Status offer(Lendable& memory, std::uint32_t number);
  void withdraw(const Lent& lent);
  void tell_refused(std::string_view why);
  void send(std::uint32_t to, Message message);
  bool send_waiting();
  void close(Outbox& outbox);
  std::uint32_t take_number();
  bool is_over();
  void wake() const;

  const std::uint32_t rank_;
  const std::uint32_t size_;
  const int device_;
  const GroupWords words_;
  FileDescriptor wakes_;  // immutable after open()
  FileDescriptor inbox_;  // the thread's after open()
  /// What others lend; by lender and place. The thread's after open().
  std::map<std::pair<std::uint32_t, std::uint32_t>, Borrowed> borrowed_;

  std::mutex mu_;
  std::condition_variable changed_;     // of lent_
  std::vector<Outbox> outboxes_;        // guarded by mu_; by rank
  std::map<std::uint64_t, Lent> lent_;  // guarded by mu_; by id
  std::vector<std::uint32_t> rounds_;   // guarded by mu_; by place, numbers it had
  std::vector<bool> taken_;             // guarded by mu_; by place
  bool is_refusal_told_ = false;        // guarded by mu_
  bool is_over_ = false;                // guarded by mu_
  std::thread thread_;
};

}  // namespace ccoll::device
