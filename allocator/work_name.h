#pragma once

#include <span>

namespace tidepool::runtime {

/// What a message calls the work that needs memory; asked for only when there is a message.
class WorkName {
 public:
  /// Writes the name, cut to the buffer.
  using Ask = void(const void* subject, std::span<char> buffer);

  WorkName(const char* text) noexcept : subject_(text) {}  // NOLINT(google-explicit-constructor)
  WorkName(Ask* ask, const void* subject) noexcept : ask_(ask), subject_(subject) {}

  /// The name as an argument of report(): `report<...>(WorkName::Text(what).c_str())`.
  class Text {
   public:
    explicit Text(const WorkName& work) noexcept : text_(work.ask_ != nullptr ? name_ : nullptr) {
      if (text_ != nullptr) {
        work.ask_(work.subject_, std::span<char>(name_));
      } else {
        text_ = static_cast<const char*>(work.subject_);
      }
    }
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;
    [[nodiscard]] const char* c_str() const noexcept { return text_; }

   private:
    char name_[256] = {};
    const char* text_;
  };

 private:
  Ask* ask_ = nullptr;
  const void* subject_;
};

}  // namespace tidepool::runtime
