#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string>

#include "allocator/cuda/content_hash.h"
#include "allocator/support/content_hash_kernel.h"
#include "tests/process/child_process.h"
#include "tools/simgpu/fatbin/image.h"

/// The fat binary that libtidepool.so carries.
extern "C" const unsigned char tp_content_hash_image[];

/// The kernel that the library carries is what nvcc makes of the one source, for every device that we name.
namespace tidepool::test {
namespace {

using simgpu::fatbin::Capability;
using simgpu::fatbin::ChosenImage;
using simgpu::fatbin::Kind;
using simgpu::fatbin::Problem;

ChosenImage chosen_for(Capability device) {
  ChosenImage chosen;
  const void* image = static_cast<const void*>(tp_content_hash_image);
  REQUIRE(ChosenImage::choose(image, device, true, &chosen) == Problem::kNone);
  return chosen;
}

/// The code alone, without comments and white space, of which the image has less, and without the name of the
/// one array of the block, which nvcc makes of the file's path.
std::string code_of(const std::string& ptx) {
  std::string code;
  for (std::size_t at = 0; at < ptx.size(); ++at) {
    if (ptx.compare(at, 2, "//") == 0) at = ptx.find('\n', at);
    if (at >= ptx.size()) break;
    if (std::isspace(static_cast<unsigned char>(ptx[at])) == 0) code += ptx[at];
  }
  const std::string declared = ".shared.align8.b8";
  const std::size_t shared = code.find(declared);
  REQUIRE(shared != std::string::npos);
  const std::size_t start = shared + declared.size();
  const std::string name = code.substr(start, code.find('[', start) - start);
  for (std::size_t at = code.find(name); at != std::string::npos; at = code.find(name, at))
    code.replace(at, name.size(), "PARTIAL");
  return code;
}

}  // namespace

TEST_CASE("content hash image: it has binary code for the devices of the profiles, and PTX for later ones") {
  for (const Capability device : {Capability{7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}) {
    INFO(device.major << '.' << device.minor);
    const ChosenImage chosen = chosen_for(device);
    CHECK((chosen.best().kind == Kind::kCubin) == (device.major < 10));
    simgpu::fatbin::ModuleFacts facts;
    REQUIRE(chosen.read(&facts) == Problem::kNone);
    REQUIRE(facts.kernels.size() == 1);
    CHECK(facts.kernels[0].name == runtime::kHashKernelName);
    const std::vector<simgpu::fatbin::Param> params = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}};
    CHECK(facts.kernels[0].params == params);
    CHECK(facts.kernels[0].max_threads == HashContent::kThreads);
    CHECK(facts.kernels[0].local_bytes <= 0);  // nothing spilt; -1 where that is not known yet
    CHECK(facts.variables.empty());            // they would cost device memory of their own
  }
}

TEST_CASE("content hash image: its PTX is what nvcc makes of the source") {
  simgpu::fatbin::Inflated inflated;
  REQUIRE(inflate(chosen_for({12, 0}).best(), &inflated) == Problem::kNone);
  const std::string carried(inflated.bytes.as_text().substr(0, inflated.bytes.as_text().find('\0')));
  std::ifstream file(built("tests/abi/content_hash.ptx"));
  const std::string made{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(!made.empty());
  CHECK(code_of(carried) == code_of(made));
}

}  // namespace tidepool::test
