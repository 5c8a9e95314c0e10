// A set-up by verbs, whose ends are honest but for what a test changes in what they say.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "verbs/verbs_wire.h"

namespace eccl::transport::verbs {

/// Both ends, made by one rank. Offer, answer and confirmation in this order; each says whether the other end
/// takes what is said where bytes of `by` are not zero: those bits are turned, and what `by` has more is added.
class VerbsMeeting {
 public:
  Status offer(std::string_view by = {}) {
    SetupData said;
    ECCL_ASSIGN(offer_, offerVerbs(wire_.context, wire_.rails, 0, wire_.options, &said));
    ECCL_ASSIGN(acceptance_,
                acceptVerbs(wire_.context, wire_.rails, wire_.options, changed(said, by), &answer_));
    return {};
  }
  Status answer(std::string_view by = {}) {
    SetupData said = changed(answer_, by);
    return offer_->onAnswer(said, &confirmation_);
  }
  Status confirm(std::string_view by = {}) {
    SetupData said = changed(confirmation_, by);
    return acceptance_->onConfirmation(said);
  }

  void look() { wire_.look(); }

 private:
  static SetupData changed(const SetupData& honest, std::string_view by) {
    by = by.substr(0, SetupData::kMaxBytes);
    SetupData said;
    said.bytes = honest.bytes;
    said.bytes.resize(std::max(said.bytes.size(), by.size()));
    for (size_t i = 0; i < by.size(); ++i) said.bytes[i] = static_cast<char>(said.bytes[i] ^ by[i]);
    return said;
  }

  VerbsWire<VerbsSender, SendEnd> wire_;
  SetupData answer_, confirmation_;
  std::unique_ptr<Offer> offer_;
  std::unique_ptr<Acceptance> acceptance_;
};

}  // namespace eccl::transport::verbs
