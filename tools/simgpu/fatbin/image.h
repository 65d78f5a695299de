#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tools/simgpu/fatbin/entries.h"
#include "tools/simgpu/fatbin/inflate.h"
#include "tools/simgpu/fatbin/module.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

/// The part of an image that a device loads: chosen without inflating anything, read when the first kernel or
/// variable is asked for. One thread at a time.
class ChosenImage {
 public:
  /// Chooses from an image without length, as cuModuleLoadData and cuLibraryLoadData get it. Unless
  /// `preserved` (CU_LIBRARY_BINARY_IS_PRESERVED) what was chosen is copied, still compressed, so that the
  /// caller may free the image.
  static Problem choose(const void* image, Capability device, bool preserved, ChosenImage* out);
  /// The same for bytes whose length is known.
  static Problem choose(Bytes image, Capability device, bool preserved, ChosenImage* out);

  /// The best of the usable entries.
  [[nodiscard]] const Entry& best() const { return usable_.front(); }

  /// Inflates and reads the best entry; the next one if that is a relocatable cubin.
  Problem read(ModuleFacts* out) const;

 private:
  std::vector<Entry> usable_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

/// Inflates and reads one entry, whatever device it is for; kTooLarge if it claims more than `largest` bytes.
Problem read_entry_facts(const Entry& entry, ModuleFacts* out, std::uint64_t largest = kLargestInflated);

}  // namespace simgpu::fatbin
