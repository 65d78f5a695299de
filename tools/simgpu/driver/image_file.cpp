#include "tools/simgpu/driver/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tools/simgpu/fatbin/memory.h"

namespace simgpu {

CUresult read_image_file(const char* path, std::vector<std::byte>* out) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
  CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    const auto size = static_cast<std::uint64_t>(status.st_size);
    result = size == 0 || size > fatbin::kLargestImage ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) out->resize(size);
  }
  std::size_t done = 0;
  while (result == CUDA_SUCCESS && done < out->size()) {
    const ssize_t got = ::read(fd, out->data() + done, out->size() - done);
    if (got <= 0) result = CUDA_ERROR_FILE_NOT_FOUND;
    done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  ::close(fd);
  return result;
}

}  // namespace simgpu
