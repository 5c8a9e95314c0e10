// The queue of batches. The Run of a batch that ends last removes the batch and lets the next one go.
#include "runtime/execution/stream.h"

#include <pthread.h>

#include <map>
#include <set>
#include <utility>

namespace eccl::runtime {
namespace {

/// Neighbours that belong to one engine together.
template <class Visit>
void forEngines(std::span<const StreamItem> items, Visit&& visit) {
  if (items.size() == 1) return visit(*items[0].engine, std::span(&items[0].run, 1));
  std::vector<std::shared_ptr<Run>> runs;
  for (size_t i = 0; i < items.size(); ++i) {
    runs.push_back(items[i].run);
    if (i + 1 < items.size() && items[i + 1].engine == items[i].engine) continue;
    visit(*items[i].engine, std::span(std::as_const(runs)));
    runs.clear();
  }
}

/// What an executor has to know of Runs that enter its stream. They have their numbers.
std::vector<Work*> worksOf(const std::vector<StreamItem>& items) {
  std::vector<Work*> works;
  for (const StreamItem& item : items) {
    item.run->decide();
    works.push_back(item.run.get());
  }
  return works;
}

/// Those of this process.
struct AllStreams {
  static AllStreams& get() {
    static auto* const one = new AllStreams;
    return *one;
  }
  // A child forked meanwhile would find the lock taken for good.
  AllStreams() {
    pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); }, [] { get().mutex.unlock(); });
  }
  std::mutex mutex;
  std::set<Stream*> streams;
};

}  // namespace

Stream::Stream(std::optional<void*> native) : native_(native) {
  AllStreams& all = AllStreams::get();
  std::lock_guard lock(all.mutex);
  all.streams.insert(this);
}

Stream::~Stream() {
  AllStreams& all = AllStreams::get();
  std::lock_guard lock(all.mutex);
  all.streams.erase(this);
}

std::shared_ptr<Stream> nativeStream(const Executor& executor, void* native) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<const void*, const void*>, std::weak_ptr<Stream>>;
  std::lock_guard lock(mutex);
  const auto key = std::make_pair(executor.place(), executor.streamOf(native));
  if (const auto found = known->find(key); found != known->end()) {
    if (std::shared_ptr<Stream> stream = found->second.lock()) return stream;
  }
  std::erase_if(*known, [](const auto& each) { return each.second.expired(); });  // of streams that are gone
  auto stream = std::make_shared<Stream>(native);
  known->emplace(key, stream);
  return stream;
}

void submit(std::span<const StreamItem> items) {
  forEngines(items, [](Engine& engine, auto runs) { engine.submit(runs); });
}

Status Stream::prepare(Run& run) const {
  if (!native_) return {};
  run.places = run.holds.load(std::memory_order_relaxed);
  PreMul& preMul = run.call.preMul;
  const void* const scalar = std::exchange(preMul.scalar, nullptr);
  run.decide();  // without it
  if (scalar == nullptr || run.executor->takesScalar(run, *native_, scalar)) return {};
  return run.executor->read(*native_, preMul.immediate, scalar, sizeOf(preMul.type));
}

Status Stream::announce(const std::vector<StreamItem>& items) const {
  return native_ ? items.front().run->executor->announce(worksOf(items)) : Status();
}

bool Stream::mayWait(const std::vector<StreamItem>& items) const {
  return native_ && items.front().run->executor->mayWait(*native_, worksOf(items));
}

Status Stream::append(std::vector<StreamItem> items) {
  auto batch = std::make_shared<Batch>();
  batch->items = std::move(items);
  batch->left = batch->items.size();
  for (StreamItem& item : batch->items) {
    // The Run keeps stream and batch alive: a destroyed handle must not take the queue away from under it.
    item.run->onDone.push_back([self = shared_from_this(), batch](Run& run) { self->onRunDone(*batch, run); });
  }
  if (native_) {
    // It may be there already, and release Runs that are not submitted yet: the engine knows that.
    Executor& executor = *batch->items.front().run->executor;
    ECCL_ASSIGN(batch->gate, executor.enter(*native_, worksOf(batch->items), [batch] { onTurn(*batch); }));
  }
  std::lock_guard lock(mutex_);
  batches_.push_back(batch);
  idle_ = false;
  // If its turn has come already, its engines hear that as they are given the Runs.
  const bool now =
      native_ ? batch->turn.exchange(Batch::Turn::entered) == Batch::Turn::cameAtOnce : batches_.size() == 1;
  if (now)
    for (StreamItem& item : batch->items) item.run->holds.fetch_sub(1, std::memory_order_relaxed);
  return {};
}

/// A native stream has reached the batch: perhaps before append() is through with it.
void Stream::onTurn(Batch& batch) {
  auto entering = Batch::Turn::entering;
  if (!batch.turn.compare_exchange_strong(entering, Batch::Turn::cameAtOnce)) release(batch);
}

void Stream::release(Batch& batch) {
  forEngines(batch.items, [](Engine& engine, auto runs) { engine.release(runs); });
}

void Stream::onRunDone(Batch& batch, Run& run) {
  std::vector<std::shared_ptr<Batch>> finished;  // freed outside the lock
  std::shared_ptr<Batch> next;
  {
    std::lock_guard lock(mutex_);
    if (!run.status.ok() && error_.ok()) error_ = run.status;
    --batch.left;
    while (!batches_.empty() && batches_.front()->left == 0) {
      finished.push_back(std::move(batches_.front()));
      batches_.pop_front();
    }
    if (!finished.empty() && !batches_.empty() && !native_) next = batches_.front();
    idle_ = batches_.empty() && error_.ok();
  }
  for (const auto& each : finished) each->gate.reset();
  if (next != nullptr) release(*next);
}

HeldUp Stream::heldUpHere(const Engine& engine, uint64_t scope, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  for (size_t i = 1; i < batches_.size(); ++i) {
    for (const StreamItem& item : batches_[i]->items) {
      const CallRecord& record = item.run->record;
      if (item.engine != &engine || record.scope != scope || record.sequence != sequence ||
          item.run->done.load(std::memory_order_acquire))
        continue;
      HeldUp found{item.run, {}};
      for (const StreamItem& ahead : batches_.front()->items)
        if (!ahead.run->done.load(std::memory_order_acquire)) found.ahead.push_back(ahead);
      return found;
    }
  }
  return {};
}

HeldUp Stream::heldUp(const Engine& engine, uint64_t scope, uint64_t sequence) {
  AllStreams& all = AllStreams::get();
  std::lock_guard lock(all.mutex);
  for (Stream* stream : all.streams) {
    if (HeldUp found = stream->heldUpHere(engine, scope, sequence); found.run != nullptr) return found;
  }
  return {};
}

Status Stream::usable() const {
  if (!inherited_) return {};
  return Status::error(Code::invalidUsage,
                       "this process was forked from a rank; what its streams hold stays with the parent");
}

Status Stream::synchronize() {
  ECCL_TRY(usable());
  if (idle()) return {};
  std::vector<std::shared_ptr<Batch>> pending;
  {
    std::lock_guard lock(mutex_);
    pending.assign(batches_.begin(), batches_.end());
  }
  for (auto& batch : pending) {
    for (StreamItem& item : batch->items) item.engine->wait(*item.run);
  }
  std::lock_guard lock(mutex_);
  return takeError();
}

Status Stream::query() {
  ECCL_TRY(usable());
  if (idle()) return {};
  std::lock_guard lock(mutex_);
  if (!batches_.empty()) return Status::error(Code::inProgress, "the stream has unfinished work");
  return takeError();
}

// Under the mutex.
Status Stream::takeError() {
  idle_ = batches_.empty();
  return std::exchange(error_, Status());
}

}  // namespace eccl::runtime
