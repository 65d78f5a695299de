// Stands for a libtidepool.so that the loader did not load: it leaves no trace of itself.
namespace tidepool::test {
extern const int kNothing;
const int kNothing = 0;
}  // namespace tidepool::test
