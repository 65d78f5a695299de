#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "tools/probe/child.h"
#include "tools/probe/descriptor.h"
#include "tools/probe/sharing.h"

namespace tidepool::probe {

std::vector<std::uint64_t> exported_sizes(bool quick) {
  if (quick) return {2 * kMiB, 8 * kMiB};
  std::vector<std::uint64_t> sizes(16, 2 * kMiB);
  sizes.insert(sizes.end(), 8, 8 * kMiB);
  sizes.insert(sizes.end(), 8, 32 * kMiB);
  sizes.insert(sizes.end(), 4, 128 * kMiB);
  return sizes;
}

/// exporter DEVICE quick|full: makes handles, sends them, says "ready", and waits to be killed.
int exporter_child(std::span<char* const> words) {
  if (words.size() != 2) return EXIT_FAILURE;
  const Gpu gpu(std::atoi(words[0]));
  std::vector<Handle> handles;
  std::vector<std::unique_ptr<Window>> windows;
  const std::vector<std::uint64_t> sizes = exported_sizes(std::string_view(words[1]) == "quick");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    handles.emplace_back(gpu, sizes[i]);
    windows.push_back(std::make_unique<Window>(gpu, 1, sizes[i]));
    windows.back()->map(0, handles.back());
    windows.back()->set_access(0);
    gpu.kernels().write_words({nullptr, 64, 256}, windows.back()->pointer<Word>(), sizes[i] / sizeof(Word),
                              i + 1);
    TP_CU(cuCtxSynchronize);
    int exported = -1;
    TP_CU(cuMemExportToShareableHandle, static_cast<void*>(&exported), handles.back().id(),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL);
    const Descriptor descriptor(exported);
    send_descriptor(kChildDescriptor, descriptor.get());
  }
  std::puts("ready");
  std::fflush(stdout);
  for (;;) ::pause();
}

}  // namespace tidepool::probe
