"""Each check of this folder refuses what it is there to refuse, and accepts what is right."""

import os
import stat
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import check_format
import check_includes
import check_links
import check_names
import check_peer_bugs
import check_scripts
import check_targets
import check_text
import check_tidy
import layers


class Tree(unittest.TestCase):
    """A small project in a scratch folder."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def assert_refused(self, found, *fragments):
        for fragment in fragments:
            self.assertTrue(any(fragment in line for line in found), f"{fragment!r} not in {found}")


class PeerBugs(Tree):
    def page(self, here, reports="a#1", comment="// a#1: what happened.\n"):
        rows = "".join(f"| {number} | {reports} | what | {here} |\n" for number in range(1, check_peer_bugs.ROWS + 1))
        self.put(check_peer_bugs.PAGE, rows)
        self.put("tests/x/x_test.cpp", comment + 'TEST_CASE("area: a promise is kept") {}\n')
        self.put("tests/x/CMakeLists.txt", "tp_add_abi_test(looks_right x.py)\ntp_add_command_test(process.x_${name} LABELS)\n")
        return check_peer_bugs.violations(self.root)

    def test_accepts_tests_that_exist_and_reasons(self):
        for here in ("`area: a promise is kept`", "`abi.looks_right`", "`process.x_one`", "not here: no device", "`cuInit` stays"):
            self.assertEqual(self.page(here), [], here)

    def test_refuses_what_is_not_there(self):
        self.assert_refused(self.page("`area: another promise`"), "row 7 names a test that is not there: area: another")
        self.assert_refused(self.page("`abi.looks_wrong`"), "row 1 names")
        self.assert_refused(self.page("mutants `a` and `b`"), "a mutant that is not there: a")
        self.assert_refused(self.page("maybe"), "row 71 says neither")
        self.put(check_peer_bugs.PAGE, "| 1 | a#1 | b | `abi.looks_right` |\n")
        self.assert_refused(check_peer_bugs.violations(self.root), "rows are not 1 to 71")

    def test_refuses_a_report_that_no_test_names(self):
        there = "`area: a promise is kept`"
        for comment in ("", "// a#12\n", "// b#1\n", "// a#2\nint x;\n// #1\n"):
            self.assert_refused(self.page(there, comment=comment), "row 1: no test names a #1")
        for comment in ("// a#2 (other), #1.\n", "// a#2, b#3,\n// a #1\n", "// a#2,\n// #1\n"):
            self.assertEqual(self.page(there, comment=comment), [])
        for reports, comment in (("a PR#7, #8", "// a#8\n"), ("b 07ded68", "// b 07ded68\n"), ("kvcached", "")):
            self.assertEqual(self.page(there, reports, comment), [])
        self.assertEqual(self.page("not here: no `area: a promise is kept`", comment=""), [])


class Includes(Tree):
    def test_accepts_the_arrows(self):
        self.put("allocator/support/result.h", "#pragma once\n#include <vector>\n")
        self.put("allocator/block.cpp", '#include "allocator/support/result.h"\n')
        self.put("shim/gate.cpp", '#include <cuda.h>\n\n#include "allocator/support/result.h"\n')
        self.assertEqual(check_includes.violations(self.root), [])

    def test_refuses_an_arrow_backwards(self):
        self.put("shim/gate.h", "")
        self.put("planner/pso.h", "")
        self.put("allocator/block.h", '#include "shim/gate.h"\n#include "planner/pso.h"\n')
        self.assert_refused(
            check_includes.violations(self.root),
            "allocator/block.h:1: allocator may not include from shim",
            "allocator/block.h:2: allocator may not include from planner",
        )

    def test_refuses_tests_in_the_product(self):
        self.put("tests/fakes/fake.h", "")
        self.put("planner/x.cpp", '#include "tests/fakes/fake.h"\n')
        self.assert_refused(check_includes.violations(self.root), "planner may not include from tests")

    def test_refuses_an_oracle_that_uses_what_it_judges(self):
        self.put("planner/evaluator.h", "")
        self.put("tests/oracles/events.cpp", '#include "planner/evaluator.h"\n')
        self.assert_refused(check_includes.violations(self.root), "tests/oracles may not include from planner")

    def test_refuses_cuda_outside_its_folders(self):
        for header in ("cuda.h", "cuda_runtime_api.h", "cudaTypedefs.h", "nvml.h", "driver_types.h"):
            with self.subTest(header):
                self.put("allocator/block.cpp", f"#include <{header}>\n")
                self.put("allocator/cuda/driver.cpp", f"#include <{header}>\n")
                found = check_includes.violations(self.root)
                self.assertEqual(len(found), 1, found)
                self.assert_refused(found, f"allocator/block.cpp:1: CUDA header {header}")

    def test_refuses_a_library_in_a_header(self):
        self.put("allocator/log.h", "#include <spdlog/spdlog.h>\n")
        self.put("allocator/log.cpp", "#include <spdlog/spdlog.h>\n")
        self.put("tools/tidepool/config.h", "#include <toml++/toml.h>\n")
        found = check_includes.violations(self.root)
        self.assertEqual(len(found), 1, found)
        self.assert_refused(found, "allocator/log.h:1: spdlog/spdlog.h in a header")

    def test_refuses_paths_that_are_not_from_the_top(self):
        self.put("allocator/block.h", "")
        self.put("allocator/arena.cpp", '#include "block.h"\n')
        self.put("allocator/engine.cpp", "#include <allocator/block.h>\n")
        self.assert_refused(check_includes.violations(self.root), '"block.h" is not a path', "included with <>")

    def test_refuses_a_new_name_in_the_top_folder(self):
        self.put("src/x.cpp", "")
        self.put("scratch.txt", "")
        self.assert_refused(check_includes.violations(self.root), "src: not one of", "scratch.txt: not one of")

    def test_every_arrow_of_the_table_ends_in_the_table(self):
        for folder, (used, _) in layers.LAYERS.items():
            self.assertLessEqual(used - {layers.ALL}, set(layers.LAYERS), folder)
            # One goes in at the shim's door, as another library; the other reads its table.
            if folder not in ("tools/probe/doors", "tools/gen"):
                self.assertNotIn("shim", used, "nothing uses the shim")


class Targets(Tree):
    def judge(self, *rows):
        self.put("targets.tsv", "".join("\t".join(row) + "\n" for row in rows))
        return check_targets.violations(self.root, self.root)

    SUPPORT = ("tp_support", "allocator/support", "")
    RUNTIME = ("tp_runtime", "allocator", "tp_support $<LINK_ONLY:dl>")

    def test_accepts_the_arrows(self):
        shim = ("tidepool", "shim", "tp_runtime tp_cuda_headers -static-libgcc")
        self.assertEqual(self.judge(self.SUPPORT, self.RUNTIME, shim), [])

    def test_refuses_an_arrow_backwards(self):
        planner = ("tp_planner", "planner", "tp_runtime")
        self.assert_refused(self.judge(self.SUPPORT, self.RUNTIME, planner), "planner may not link tp_runtime")

    def test_refuses_who_links_the_shim(self):
        shim = ("tidepool", "shim", "")
        self.assert_refused(self.judge(shim, ("x", "tools/tidepool", "tidepool")), "may not link tidepool of shim")

    def test_a_workload_may_link_only_the_public_face_of_the_simulator(self):
        device = [("simgpu_kernel", "tools/simgpu", "dl"), ("simgpu_cuda", "tools/simgpu/driver", "")]
        found = self.judge(*device, ("train", "tools/workloads", "simgpu_kernel simgpu_cuda"))
        self.assertEqual(found, ["train: tools/workloads may not link simgpu_cuda of tools/simgpu"])

    def test_refuses_a_library_that_is_not_in_the_table(self):
        found = self.judge(("tp_runtime", "allocator", "spdlog::spdlog"), ("t", "tests/unit", "spdlog::spdlog"))
        self.assertEqual(found, ["tp_runtime: allocator may not link spdlog::spdlog"])

    def test_refuses_cuda_headers_where_they_do_not_belong(self):
        found = self.judge(("tp_runtime", "allocator", "tp_cuda_headers"))
        self.assert_refused(found, "tp_runtime: links tp_cuda_headers")


class Names(Tree):
    def test_refuses_the_simulator_and_workloads(self):
        self.put("tools/workloads/CMakeLists.txt", "add_executable(train_mlp train_mlp.cu)\n")
        self.put("shim/a.cpp", "int x;\n// only on SimGPU\n")
        self.put("allocator/b.h", "// what train_mlp does\n")
        self.put("planner/simgpu_cost.h", "\n")
        self.put("tools/simgpu/c.cpp", "// simgpu\n")
        found = check_names.violations(self.root)
        self.assert_refused(found, "shim/a.cpp:2: names SimGPU", "allocator/b.h:1: names train_mlp")
        self.assert_refused(found, "planner/simgpu_cost.h: the file's name")
        self.assertEqual(len(found), 3, found)


class Text(Tree):
    def refusals(self, text, path="allocator/x.cpp"):
        self.put(path, text)
        return check_text.violations(self.root)

    def test_accepts_clean_text(self):
        self.assertEqual(self.refusals("int x;\n" * check_text.MAX_LINES), [])

    def test_refuses_a_long_source_and_not_a_long_document(self):
        self.assert_refused(self.refusals("int x;\n" * 401), "401 lines; the limit is 400")
        self.put("allocator/x.cpp", "")
        self.assertEqual(self.refusals("word\n" * 1000, "docs/long.md"), [])

    def test_refuses_untidy_ends(self):
        self.assert_refused(self.refusals("int x; \n"), "x.cpp:1: whitespace")
        self.assert_refused(self.refusals("int x;"), "no newline at the end")
        self.assert_refused(self.refusals("int x;\n\n"), "empty lines at the end")
        self.assert_refused(self.refusals("\tint x;\n"), "x.cpp:1: a tab")

    def test_refuses_paths_of_one_machine(self):
        for path in ("/wo" + "rk/main/x", "/ro" + "ot/.cache", "/ho" + "me/someone/src"):
            with self.subTest(path):
                self.assert_refused(self.refusals(f"see {path}\n", "docs/a.md"), "docs/a.md:1: path of one")

    def test_accepts_paths_that_only_look_like_it(self):
        self.assertEqual(self.refusals("tests/work/x ${X}/root /working /rooted\n", "docs/a.md"), [])

    def test_refuses_package_registries(self):
        host = "deb.debian" + ".org"
        self.assert_refused(self.refusals(f"from {host}\n", "README.md"), "README.md:1: package registry")


class Format(Tree):
    def test_refuses_unformatted_code(self):
        self.put(".clang-format", "BasedOnStyle: Google\n")
        self.put("allocator/good.cpp", "int x = 1;\n")
        self.put("allocator/bad.cpp", "int   x=1;\n")
        self.assertEqual(check_format.violations(self.root), ["allocator/bad.cpp:1: not formatted"])


class Scripts(Tree):
    def test_refuses_a_careless_script_also_without_suffix(self):
        for path in ("tools/go.sh", ".ci/run"):
            with self.subTest(path):
                file = self.put(path, "#!/bin/sh\nrm -rf $1/*\n")
                file.chmod(file.stat().st_mode | stat.S_IXUSR)
                self.assert_refused(check_scripts.violations(self.root), f"{path}:2:")

    def test_refuses_a_misspelt_document(self):
        self.put("docs/a.md", "We " + "recieve bytes.\n")
        self.assert_refused(check_scripts.violations(self.root), "docs/a.md:1:")


class Links(Tree):
    def test_refuses_a_link_to_nothing(self):
        self.put("docs/b.md", "")
        self.put("docs/a.md", "[b](b.md#part) [web](https://example.com) [top](../README.md)\n```\n[x](y)\n```\n")
        self.assertEqual(check_links.violations(self.root), ["docs/a.md:1: ../README.md does not exist"])


class Tidy(Tree):
    def test_refuses_a_finding_and_remembers_only_what_passed(self):
        checks = "-*,readability-identifier-naming"
        options = "[{ key: readability-identifier-naming.VariableCase, value: lower_case }]"
        self.put(".clang-tidy", f"Checks: '{checks}'\nWarningsAsErrors: '*'\nCheckOptions: {options}\n")
        self.put("allocator/name.h", "inline int good_name = 1;\n")
        entries = []
        for name in ("good", "bad"):
            variable = "other_name" if name == "good" else "BadName"
            file = self.put(f"allocator/{name}.cpp", f'#include "allocator/name.h"\nint {variable} = good_name;\n')
            command = f"c++ -std=c++20 -I{self.root} -c {file}"
            entries.append(f'{{"directory": "{self.root}", "file": "{file}", "command": "{command}"}}')
        self.put("build/compile_commands.json", "[" + ",".join(entries) + "]")
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache")):
            found = check_tidy.violations(self.root, self.root / "build")
            self.assert_refused(found, "BadName")
            self.assertEqual(len(list(check_tidy.cache_folder().iterdir())), 1)
            # A header that the remembered file reaches is part of the verdict.
            self.put("allocator/name.h", "inline int good_name = 1;\ninline int AlsoBad = 2;\n")
            entry_keys = {
                check_tidy.key_of(self.root, entry, "x")
                for entry in check_tidy.own_entries(self.root, self.root / "build").values()
            }
            self.put("allocator/name.h", "inline int good_name = 1;\n")
            for entry in check_tidy.own_entries(self.root, self.root / "build").values():
                self.assertNotIn(check_tidy.key_of(self.root, entry, "x"), entry_keys)


if __name__ == "__main__":
    unittest.main()
