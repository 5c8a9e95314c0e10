#include "transport/verbs/rails.h"

#include <algorithm>
#include <numeric>

namespace eccl::transport::verbs {

void Rails::order(std::span<const std::string> nearPorts) {
  const auto place = [&](uint32_t number) {
    const Port& port = rails_[number].port;
    return std::find_if(nearPorts.begin(), nearPorts.end(),
                        [&](const std::string& name) { return name == port.device || name == port.text(); });
  };
  order_.resize(rails_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
}

std::string Rails::text() const {
  std::string text;
  for (const uint32_t number : order_) text += (text.empty() ? "" : ", ") + rails_[number].port.text();
  return text;
}

}  // namespace eccl::transport::verbs
