"""The ABI checks refuse what they are there to refuse: small libraries are built with one fault each."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import check_shim
import check_stand_ins
import elf

COMPILER = os.environ.get("CXX", "c++")


class Library(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.table = self.folder / "hooks.def"
        self.table.write_text("// rows\nTP_HOOK(cuInit, kInit)\nTP_HOOK_PTSZ(cuLaunchKernel, kLaunch)\n")

    def build(self, source, *options, script="{ global: cu*; local: *; };"):
        (self.folder / "x.cpp").write_text(source)
        (self.folder / "x.map").write_text(script)
        library = self.folder / "libx.so"
        command = [COMPILER, "-shared", "-fPIC", "-o", library, self.folder / "x.cpp"]
        command.append(f"-Wl,--version-script={self.folder / 'x.map'}")
        subprocess.run([*command, *options], check=True)
        return library

    STATIC = ("-static-libstdc++", "-static-libgcc")
    GOOD = """extern "C" { int cuInit() { return 0; } int cuLaunchKernel() { return 0; }
              int cuLaunchKernel_ptsz() { return 0; } }\n"""

    def test_reads_the_table(self):
        self.assertEqual(elf.hook_names(self.table), {"cuInit", "cuLaunchKernel", "cuLaunchKernel_ptsz"})

    def test_accepts_a_polite_library(self):
        library = self.build(self.GOOD, *self.STATIC)
        for check in ("needed", "unique", "undefined", "glibc"):
            self.assertEqual(check_shim.CHECKS[check](library, [self.table]), [])
        self.assertEqual(len(check_shim.check_exports(library, [self.table])), 1)  # dlsym is missing

    def test_refuses_a_forgotten_and_a_leaked_export(self):
        source = self.GOOD.replace("cuLaunchKernel_ptsz", "cuSomethingElse")
        found = check_shim.check_exports(self.build(source, *self.STATIC), [self.table])
        self.assertIn("cuLaunchKernel_ptsz is in hooks.def but not exported", found)
        self.assertIn("cuSomethingElse is exported but not in hooks.def", found)

    def test_refuses_a_second_library(self):
        source = self.GOOD + "#include <string>\nextern \"C\" int cuMore(char* c) { return std::stoi(c); }\n"
        self.assertIn("needs libstdc++.so.6", check_shim.check_needed(self.build(source), [self.table]))

    def test_refuses_a_unique_symbol(self):
        source = "template <class T> struct S { static T* get() { static T value; return &value; } };\n"
        source += 'extern "C" void* cuInit() { return S<int>::get(); }\n'
        library = self.build(source, *self.STATIC, script="{ global: *; };")
        self.assertNotEqual(check_shim.check_unique(library, [self.table]), [])

    def test_refuses_a_symbol_from_elsewhere(self):
        source = 'extern "C" { int unw_backtrace(); int cuInit() { return unw_backtrace(); } }\n'
        found = check_shim.check_undefined(self.build(source, *self.STATIC), [self.table])
        self.assertEqual(found, ["unw_backtrace is taken from outside glibc"])

    def test_refuses_a_newer_glibc(self):
        library = self.build('#include <unistd.h>\nextern "C" int cuInit() { return getpid(); }\n', *self.STATIC)
        newest, check_shim.NEWEST_GLIBC = check_shim.NEWEST_GLIBC, (2, 1)
        self.addCleanup(setattr, check_shim, "NEWEST_GLIBC", newest)
        self.assertIn("getpid needs glibc 2.2.5", check_shim.check_glibc(library, [self.table]))

    def test_refuses_a_runtime_without_its_version_node(self):
        source = 'extern "C" int cudaMalloc() { return 0; }\n'
        options = (*self.STATIC, "-Wl,-soname,libcudart.so.13")
        self.assertEqual(
            check_stand_ins.check_runtime(self.build(source, *options)), ["cudaMalloc carries ''"]
        )
        library = self.build(source, *options, script="libcudart.so.13 { global: cu*; local: *; };")
        self.assertEqual(check_stand_ins.check_runtime(library), [])

    def test_refuses_a_runtime_that_lacks_or_adds_a_function(self):
        options = (*self.STATIC, "-Wl,-soname,libcudart.so.13")
        script = "libcudart.so.13 { global: cu*; simgpu*; local: *; };"
        source = 'extern "C" { int cudaMalloc() { return 0; } int cudaFree() { return 0; } }\n'
        like = self.build(source, *options, script=script).rename(self.folder / "like.so")
        source = source.replace("cudaFree", "cudaFrei") + 'extern "C" int simgpuRegisterKernel() { return 0; }\n'
        found = check_stand_ins.check_runtime(self.build(source, *options, script=script), like)
        self.assertEqual(found, ["cudaFree is not exported", f"cudaFrei is exported, but not by {like}"])

    def test_refuses_a_driver_that_leaks(self):
        source = 'extern "C" { int cuInit() { return 0; } int helper() { return 0; } }\n'
        library = self.build(source, *self.STATIC, "-Wl,-soname,libcuda.so.2", script="{ global: *; };")
        self.assertEqual(check_stand_ins.check_driver(library), ["soname is libcuda.so.2", "helper is exported"])


if __name__ == "__main__":
    unittest.main()
