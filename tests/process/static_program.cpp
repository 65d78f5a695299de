// A program that is linked statically and does nothing.
int main() {
  return 0;
}
