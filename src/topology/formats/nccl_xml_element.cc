// Attributes as NCCL reads them: what is malformed is noted and taken as NCCL takes it.
#include "topology/formats/nccl_xml_element.h"

#include <algorithm>

namespace eccl::topology {
namespace {

constexpr size_t kMaxAttributes = 64;  // of an element; NCCL keeps 16
constexpr size_t kMaxNotes = 100;      // a file that says more that we do not know is not one for us

}  // namespace

XmlSource::XmlSource(std::string_view text, const std::string& name) : name_(name), lineStarts_{0} {
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    lineStarts_.push_back(at + 1);
}

int XmlSource::lineAt(ptrdiff_t offset) const {
  const auto next = std::upper_bound(lineStarts_.begin(), lineStarts_.end(), static_cast<size_t>(offset));
  return offset < 0 ? 1 : static_cast<int>(next - lineStarts_.begin());
}

Status XmlSource::error(int line, const std::string& sentence) const {
  return Status::error(Code::invalidArgument, "%s:%d: %s", name_.c_str(), line, sentence.c_str());
}

void XmlSource::note(int line, const std::string& what, bool odd) {
  if (notes_.size() == kMaxNotes && notes_.count(what) == 0) {
    ++notesLeftOut_;
    return;
  }
  Note& note = notes_[what];
  note.odd |= odd;
  if (note.count++ == 0) note.line = line;
}

std::vector<std::string> XmlSource::notes(bool oddOnly) const {
  std::vector<std::pair<int, std::string>> found;
  for (const auto& [what, note] : notes_) {
    if (oddOnly && !note.odd) continue;
    const std::string more = note.count > 1 ? format(" (%d times)", note.count) : "";
    found.emplace_back(note.line, format("%s:%d: %s%s", name_.c_str(), note.line, what.c_str(), more.c_str()));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> sentences;
  for (auto& [line, sentence] : found) sentences.push_back(std::move(sentence));
  if (notesLeftOut_ > 0) sentences.push_back(format("%s: %d notes more", name_.c_str(), notesLeftOut_));
  return sentences;
}

XmlElement::XmlElement(XmlSource& source, const pugi::xml_node& node)
    : source_(source), tag_(node.name()), line_(source.lineOf(node)) {
  for (const pugi::xml_attribute& attribute : node.attributes()) {
    if (attributes_.size() == kMaxAttributes) {
      odd(format("<%s> has more than %zu attributes: the others are left out", tag_.c_str(), kMaxAttributes));
      break;
    }
    const std::string key = attribute.name();
    const auto first = std::find_if(attributes_.begin(), attributes_.end(),
                                    [&](const auto& other) { return other.first == key; });
    if (first != attributes_.end()) {
      odd(format("<%s> has two attributes %s: of %s and %s the first is taken", tag_.c_str(),
                 inQuotes(key).c_str(), inQuotes(first->second).c_str(), inQuotes(attribute.value()).c_str()));
      continue;
    }
    if (key == "busid" || key == "name" || key == "target" || key == "numaid")
      who_ = inQuotes(attribute.value());
    attributes_.emplace_back(key, attribute.value());
  }
  asked_.resize(attributes_.size());
}

XmlElement::~XmlElement() {
  for (size_t i = 0; i < attributes_.size(); ++i) {
    if (!asked_[i])
      note(format("<%s> has an attribute %s, which is not kept", tag_.c_str(),
                  inQuotes(attributes_[i].first).c_str()));
  }
}

Status XmlElement::error(const std::string& sentence) const {
  return source_.error(line_, "<" + tag_ + (who_.empty() ? "> " : "> " + who_ + " ") + sentence);
}

std::optional<std::string> XmlElement::text(const char* key) {
  for (size_t i = 0; i < attributes_.size(); ++i) {
    if (attributes_[i].first != key) continue;
    asked_[i] = true;
    return attributes_[i].second;
  }
  return std::nullopt;
}

void XmlElement::flag(const char* key, std::optional<bool>& result) {
  std::optional<int> number;
  this->number(key, INT32_MIN, INT32_MAX, number);
  if (number && *number != 0 && *number != 1) note(format("%s=%d is taken for 1", key, *number));
  if (number) result = *number != 0;
}

void XmlElement::misread(const char* key, const std::string& value, const std::string& expected,
                         const std::string& taken) const {
  odd(format("<%s> has %s=%s, which is not %s: taken %s", tag_.c_str(), key, inQuotes(value).c_str(),
             expected.c_str(), taken.c_str()));
}

}  // namespace eccl::topology
